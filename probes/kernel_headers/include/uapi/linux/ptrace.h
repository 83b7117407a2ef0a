// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The registers as eBPF programs on uprobes and perf events see them: ABI.
#ifndef PILLION_UAPI_PTRACE_H
#define PILLION_UAPI_PTRACE_H

#include <linux/types.h>

#if defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_x86_64)
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
    unsigned long orig_ax, ip, cs, flags, sp, ss;
};
typedef struct pt_regs bpf_user_pt_regs_t;
#elif defined(__TARGET_ARCH_arm64) || defined(__TARGET_ARCH_aarch64)
struct user_pt_regs {
    u64 regs[31], sp, pc, pstate;
};
struct pt_regs {
    u64 regs[31], sp, pc, pstate;
};
typedef struct user_pt_regs bpf_user_pt_regs_t;
#else
#error "no register layout for this architecture"
#endif

struct bpf_perf_event_data {
    bpf_user_pt_regs_t regs;
    u64 sample_period;
    u64 addr;
};

#endif
