// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#ifndef PILLION_LINUX_TYPES_H
#define PILLION_LINUX_TYPES_H

typedef unsigned char __u8, u8;
typedef unsigned short __u16, u16, __le16, __be16;
typedef unsigned int __u32, u32, __le32, __be32, __wsum;
typedef unsigned long long __u64, u64, __le64, __be64;
typedef signed char __s8, s8;
typedef short __s16, s16;
typedef int __s32, s32;
typedef long long __s64, s64;
typedef _Bool bool;
typedef __u64 __aligned_u64 __attribute__((aligned(8)));
typedef unsigned long size_t, uintptr_t;
typedef long ssize_t;
typedef int pid_t;

enum { false, true };

#define __always_inline inline __attribute__((always_inline))
#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)

#endif
