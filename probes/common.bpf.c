// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Shared by all programs: the maps, the stack of the current thread, its open range. The agent compiles the .bpf.c
// files as one text, this one first (bcc rewrites map accesses only in the main file). Kernel struct offsets arrive
// as defines read from BTF: TASK_PID, TASK_TGID, TASK_COMM, TASK_TLS, TASK_RUNTIME …; RING_DEPTH comes from pillion.h.

#include <uapi/linux/ptrace.h>

#include "kernel_event.h"

// The helpers under names of our own: where bcc meets theirs it searches /proc/kallsyms, 0.1 s for every call.
static long (*read_user)(void *to, u32 size, const void *from) = (void *)BPF_FUNC_probe_read_user;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;

BPF_RINGBUF_OUTPUT(events, EVENT_PAGES);
BPF_TABLE("hash", u32, struct pln_target, targets, 65536);
BPF_TABLE("hash", u32, struct pln_thread, threads, 32768);
// Values are 1.7 kB: allocated when a thread first waits, not 32,768 times in advance.
BPF_F_TABLE("hash", u32, struct pln_event, wait_stacks, 32768, BPF_F_NO_PREALLOC);
BPF_PERCPU_ARRAY(scratch, struct pln_event, 1);
BPF_PERCPU_ARRAY(scratch_thread, struct pln_thread, 1);
BPF_PERCPU_ARRAY(counts, u64, PLN_COUNTS);
BPF_PERCPU_ARRAY(unseen_bytes, u64, 1);
BPF_ARRAY(settings, struct pln_settings, 1);

static __always_inline void count(u32 what) {
    u64 *n = counts.lookup(&what);
    if (n)
        *n += 1;
}

static __always_inline void count_lost(u16 kind) {
    count(kind == PLN_SAMPLE ? PLN_COUNT_LOST_SAMPLES : kind == PLN_WAIT ? PLN_COUNT_LOST_WAITS : PLN_COUNT_LOST_OTHER);
}

// Wakes the agent at once for the first events of a process, and after every WAKEUP_BYTES; otherwise the agent's timer
// finds them. A wakeup per event would cost more than the event.
#define WAKEUP_BYTES (256 * 1024)

static __always_inline u64 wakeup(struct pln_target *target, u64 size) {
    if (target && target->wakeups) {
        target->wakeups -= 1;
        return BPF_RB_FORCE_WAKEUP;
    }
    int zero = 0;
    u64 *unseen = unseen_bytes.lookup(&zero);
    if (!unseen)
        return BPF_RB_NO_WAKEUP;
    *unseen += size;
    if (*unseen < WAKEUP_BYTES)
        return BPF_RB_NO_WAKEUP;
    *unseen = 0;
    return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void send(struct pln_event *event, u32 frames, struct pln_target *target) {
    u64 size = offsetof(struct pln_event, frames) + 8 * (u64)(frames < PLN_STACK_FRAMES ? frames : PLN_STACK_FRAMES);
    if (events.ringbuf_output(event, size, wakeup(target, size)))
        count_lost(event->sample.kind);
}

static __always_inline u64 thread_pointer(void) {
    u64 pointer = 0;
    read_kernel(&pointer, sizeof pointer, (void *)bpf_get_current_task() + TASK_TLS);
    return pointer;
}

// The innermost open range, as the thread itself publishes it in its ring (struct pln_open in pillion.h). Returns how
// many are open, 0 for none.
static __always_inline u32 read_open(struct pln_open *open, struct pln_target *target, u64 thread) {
    u64 ring = 0;
    u32 depth = 0;
    if (!target->tls_offset || read_user(&ring, sizeof ring, (void *)(thread + target->tls_offset)) || !ring)
        return 0;
    if (read_user(&depth, sizeof depth, (void *)(ring + RING_DEPTH)) || !depth)
        return 0;
    u32 place = depth < PLN_OPEN_MAX ? depth : PLN_OPEN_MAX;
    void *innermost = (void *)(ring + PLN_OPEN_OFFSET + (place - 1) * sizeof *open);
    return read_user(open, sizeof *open, innermost) ? 0 : place;
}

static __always_inline void read_range(struct pln_sample *sample, struct pln_target *target, u64 thread) {
    struct pln_open open = {};
    sample->range_seq = sample->range_name = 0;
    if (!read_open(&open, target, thread))
        return;
    sample->range_seq = open.seq;
    sample->range_name = open.name;
}

// CPython 3.11: PyThreadState.cframe, _PyCFrame.current_frame, then _PyInterpreterFrame from f_code to prev_instr in
// one read. tests/probes compares these offsets with the interpreter's own headers.
#define PY311_TSTATE_CFRAME 56
#define PY311_CFRAME_FRAME 8
#define PY311_FRAME_CODE 32
#define PY311_CODE_INSTRUCTIONS 184
struct py311_frame {
    u64 code;
    u64 frame_object;
    u64 previous;
    u64 instruction;
};

static __always_inline u32 walk_python311(u64 *frames, u64 tstate, u16 *flags) {
    u64 cframe = 0, next = 0;
    read_user(&cframe, sizeof cframe, (void *)(tstate + PY311_TSTATE_CFRAME));
    read_user(&next, sizeof next, (void *)(cframe + PY311_CFRAME_FRAME));
    u32 n = 0;
#pragma clang loop unroll(disable)
    for (; n < PLN_PYTHON_FRAMES; n++) {
        struct py311_frame frame = {};
        if (!next || read_user(&frame, sizeof frame, (void *)(next + PY311_FRAME_CODE)))
            return n;
        u64 index = (frame.instruction - frame.code - PY311_CODE_INSTRUCTIONS) / 2;
        frames[n] = (frame.code & 0xffffffffffffULL) | (index < 0xffff ? index : 0xffff) << 48;
        next = frame.previous;
    }
    if (next)
        *flags |= PLN_TRUNCATED;
    return n;
}

// The interpreter's state of this very thread is thread-specific data of pthread (PyThread_tss), so it is right for
// threads that do not hold the GIL, too. Keys below 32 live in the thread's own block.
static __always_inline u32 walk_python(u64 *frames, struct pln_target *target, u64 thread, u16 *flags) {
    if (target->python != PLN_PYTHON_311 || !target->tss_key)
        return 0;
    struct {
        u32 initialized;
        u32 key;
    } tss = {};
    u64 tstate = 0;
    if (read_user(&tss, sizeof tss, (void *)target->tss_key) || !tss.initialized || tss.key >= 32)
        return 0;
    read_user(&tstate, sizeof tstate, (void *)(thread + target->tss_offset + 16 * (u64)tss.key + 8));
    return tstate ? walk_python311(frames, tstate, flags) : 0;
}

// Fills the current thread's stacks but the kernel's into event; returns how much of frames[] is to be sent.
// The sections have fixed places: the verifier knows every bound, and a reader packs them.
static __always_inline u32 fill_user(void *ctx, struct pln_event *event, struct pln_sample *sample,
                                     struct pln_target *target, u64 thread) {
    long native = bpf_get_stack(ctx, event->frames + PLN_KERNEL_FRAMES, PLN_NATIVE_FRAMES * 8, BPF_F_USER_STACK);
    event->n_kernel = 0;
    event->n_native = native > 0 ? (u64)native / 8 : 0;
    event->n_python =
        walk_python(event->frames + PLN_KERNEL_FRAMES + PLN_NATIVE_FRAMES, target, thread, &sample->flags);
    if (event->n_native == PLN_NATIVE_FRAMES)
        sample->flags |= PLN_TRUNCATED;
    if (event->n_python)
        return PLN_KERNEL_FRAMES + PLN_NATIVE_FRAMES + event->n_python;
    return event->n_native ? PLN_KERNEL_FRAMES + PLN_NATIVE_FRAMES : PLN_KERNEL_FRAMES;
}

static __always_inline u32 fill(void *ctx, struct pln_event *event, struct pln_sample *sample,
                                struct pln_target *target, u64 thread) {
    long kernel = bpf_get_stack(ctx, event->frames, PLN_KERNEL_FRAMES * 8, 0);
    u32 frames = fill_user(ctx, event, sample, target, thread);
    event->n_kernel = kernel > 0 ? (u64)kernel / 8 : 0;
    if (event->n_kernel == PLN_KERNEL_FRAMES)
        sample->flags |= PLN_TRUNCATED;
    return frames;
}
