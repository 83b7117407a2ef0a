/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * What the eBPF programs put into their ring buffer. Only the agent's reader (cffi_build/src/collector/kernel_ring.c) and the
 * programs see it: it never reaches a file. A sample's or wait's first 64 bytes are the pln_sample of the spool.
 */
#ifndef PILLION_KERNEL_EVENT_H
#define PILLION_KERNEL_EVENT_H

#include "pillion.h"

#define PLN_KERNEL_FRAMES 48 /* the deepest kernel stack of a torch job measured here has 31 frames */
#define PLN_NATIVE_FRAMES 64
#define PLN_PYTHON_FRAMES 96 /* 96 × 8 bytes: a training step in torch is 25 to 40 deep */
#define PLN_STACK_FRAMES 208 /* the sum */

/* pln_event.sample.kind, besides PLN_SAMPLE and PLN_WAIT */
#define PLN_EVENT_FORK 32        /* pid: the child; waker_pid: the parent */
#define PLN_EVENT_EXEC 33        /* frames[]: a pln_exec with weight_ns bytes of text */
#define PLN_EVENT_EXIT 34        /* the process's last thread ended */
#define PLN_EVENT_THREAD_EXIT 35 /* frames[]: a pln_thread_time */
#define PLN_EVENT_RANGE 36       /* frames[]: a record of a ring, from the USDT probe of its kind */
#define PLN_EVENT_NAME 37        /* frames[]: the text of string range_name, weight_ns bytes */
#define PLN_EVENT_PROBE 38       /* a pln_probe_hit */

#define PLN_EXEC_TEXT 1024 /* command lines of torch jobs measured here: up to 400 bytes */

/* What a process became, read while it became it: it may be gone before anybody looks into /proc. */
struct pln_exec {
    char comm[16];
    uint64_t arguments; /* how many; each ends with a NUL, what follows is its environment */
    char text[PLN_EXEC_TEXT];
};

#define PLN_NAME_TEXT 1600 /* bytes of a string that the USDT transport carries; it is in frames[] */

struct pln_event {
    struct pln_sample sample;
    uint64_t sessions; /* bit per session that wants it */
    uint16_t n_kernel;
    uint16_t n_native;
    uint16_t n_python;
    uint16_t reserved;
    /* Kernel frames at 0, native at PLN_KERNEL_FRAMES, Python behind the native ones: the last section is the only
     * one of variable length. A Python frame is code object | instruction index << 48. */
    uint64_t frames[PLN_STACK_FRAMES];
};

/* Exact times of a thread, kept at every context switch. */
struct pln_thread_time {
    uint64_t first_ns; /* since when it was observed */
    uint64_t since_ns; /* when the current state began */
    uint64_t on_cpu_ns;
    uint64_t off_cpu_ns;
    uint64_t runnable_ns; /* the part of off_cpu_ns that it waited for a CPU */
    uint64_t runtime_ns;  /* the scheduler's account of its CPU time at the last switch-out */
    uint64_t woken_ns;    /* in a wait: when it became runnable, 0 for not yet */
    uint32_t switches;
    uint32_t pid;
    uint32_t state; /* PLN_THREAD_* */
    uint32_t reserved;
    char comm[16];
};

#define PLN_THREAD_ON 1
#define PLN_THREAD_OFF 2
#define PLN_THREAD_EXITING 3 /* reported; its last switches say nothing more */

/* What the map "threads" holds: the thread's times and the wait it is in, sent at switch-in if it turned out long enough.
 * Its stack is in the map "wait_stacks": a large value, which the kernel may have no memory for at the moment. */
struct pln_thread {
    struct pln_thread_time time;
    struct pln_sample wait;
    uint64_t sessions;
    uint32_t frames; /* how much of the stack's frames[] is to be sent, 0 for no stack */
    uint32_t reserved;
};

/* What the map "targets" holds, by host pid. The agent writes it, fork copies it. */
struct pln_target {
    uint64_t sessions; /* bit per session that records this process */
    uint64_t follow; /* those of them that also record its children */
    uint64_t start_ns; /* when it became a target: threads found running had run since then */
    uint64_t tss_key; /* address of CPython's Py_tss_t autoTSSkey, 0: not CPython, or not yet known */
    int64_t tls_offset; /* thread pointer + this holds the thread's pln_ring *, 0: no region */
    uint32_t tss_offset; /* from the thread pointer to pthread's first block of thread-specific data */
    uint32_t python; /* index of the walker, PLN_PYTHON_* */
    uint32_t wakeups; /* events that still wake the agent at once: a new process may not live long */
    uint32_t reserved;
};

#define PLN_PYTHON_NONE 0
#define PLN_PYTHON_311 1

/* What the array "settings" holds, one element. */
struct pln_settings {
    uint64_t wait_threshold_ns; /* the lowest of all sessions */
};

/* ---- USDT probes ---- */

#define PLN_PROBE_ARGS 12 /* as many as sys/sdt.h has */

/* pln_probe_arg.form */
#define PLN_ARG_UNKNOWN 0 /* a floating point number, a place in no form we know */
#define PLN_ARG_CONSTANT 1 /* value */
#define PLN_ARG_REGISTER 2 /* the register base */
#define PLN_ARG_MEMORY 3 /* at value + register base + register index << shift */

#define PLN_NO_REGISTER 0xff

/* Where an argument of a probe is. Registers are byte offsets into struct pt_regs. */
struct pln_probe_arg {
    int64_t value;
    uint8_t form;
    uint8_t size; /* 1, 2, 4 or 8 bytes */
    uint8_t is_signed;
    uint8_t base;
    uint8_t index;
    uint8_t shift;
    uint8_t reserved[2];
};

/* What the map "probe_sites" holds by attach cookie: one location of one probe. */
struct pln_probe_site {
    uint64_t sessions; /* bit per session that wants it */
    uint32_t round; /* counts the sessions that joined: who is new has got no strings yet */
    uint32_t arg_count;
    struct pln_probe_arg args[PLN_PROBE_ARGS];
};

/* A probe that the user named was hit. sample.range_name: the cookie of the site; range_seq: the innermost open range;
 * reserved: how many ranges are open; weight_ns: a bit for each argument that could not be read. */
struct pln_probe_hit {
    struct pln_sample sample;
    uint64_t sessions;
    uint64_t open_ns; /* when the innermost open range began */
    uint64_t args[PLN_PROBE_ARGS];
};

/* The per-CPU array "counts": events by fate, for the losses. */
#define PLN_COUNT_LOST_SAMPLES 0 /* the ring buffer was full */
#define PLN_COUNT_LOST_WAITS 1
#define PLN_COUNT_LOST_OTHER 2 /* lifecycle, ranges and calls from USDT probes */
#define PLN_COUNT_LOST_THREADS 3 /* the map "threads" was full */
#define PLN_COUNT_LOST_STACKS 4 /* a wait's stack found no memory */
#define PLN_COUNT_LOST_PROBES 5 /* hits of probes that the user named */
#define PLN_COUNTS 6

#if !defined(__BPF__) && !defined(__bpf__)
PLN_ASSERT(sizeof(struct pln_event) == 80 + 8 * PLN_STACK_FRAMES, "no padding: the programs send a prefix of it");
PLN_ASSERT(sizeof(struct pln_probe_site) == 16 + 16 * PLN_PROBE_ARGS, "no padding: all of it is a map's value");
PLN_ASSERT(offsetof(struct pln_probe_hit, sessions) == offsetof(struct pln_event, sessions), "they begin alike");
PLN_ASSERT(PLN_STACK_FRAMES == PLN_KERNEL_FRAMES + PLN_NATIVE_FRAMES + PLN_PYTHON_FRAMES, "sections fill frames[]");
#endif

#endif
