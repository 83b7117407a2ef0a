// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hook: uprobe on the USDT probe launch of every libpillion.so in use (pillion_usdt.h). Question: which code launched
// this work of a device? Cost: about 6 µs per launch (tests/bench/usdt_hits.py).

int on_launch(struct pt_regs *ctx) {
    struct pln_visit visit = {};
    if (!read_visit(ctx, &visit))
        return 0;
    struct pln_event *event = events.ringbuf_reserve(sizeof(struct pln_event));
    if (!event) {
        count(PLN_COUNT_LOST_OTHER);
        return 0;
    }
    __builtin_memset(event, 0, offsetof(struct pln_event, frames));
    event->sessions = visit.sessions;
    event->sample.kind = PLN_CALL;
    event->sample.tid = bpf_get_current_pid_tgid();
    event->sample.pid = visit.pid;
    event->sample.start_ns = event->sample.end_ns = bpf_ktime_get_ns();
    event->sample.cpu = bpf_get_smp_processor_id();
    u64 thread = thread_pointer(), seq = 0;
    read_range(&event->sample, visit.target, thread);
    // The probe says which range it is; the thread publishes no range that is nested too deep.
    if (!read_argument(ctx, &visit.site->args[0], &seq) && seq != event->sample.range_seq) {
        event->sample.range_seq = seq;
        event->sample.range_name = 0;
    }
    fill_user(ctx, event, &event->sample, visit.target, thread); // the kernel's is the way into the probe
    events.ringbuf_submit(event, wakeup(visit.target, sizeof *event));
    return 0;
}
