// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hook: perf software clock, one event per CPU and rate. Question: what does this CPU do right now?
// Cost: one hash lookup for a process that nobody records, about 3 µs with a Python stack of 20 frames.

// The sampling period in ns, unique per rate, to the sessions that sample at it.
BPF_HASH(rates, u64, u64, 64);

// Its own room: the clock's interrupt may hit another program that is half through with "scratch".
BPF_PERCPU_ARRAY(sample_scratch, struct pln_event, 1);

int on_clock(struct bpf_perf_event_data *ctx) {
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32;
    struct pln_target *target = targets.lookup(&pid);
    if (!target)
        return 0;
    u64 period_ns = ctx->sample_period;
    u64 *sampling = rates.lookup(&period_ns);
    if (!sampling || !(*sampling & target->sessions))
        return 0;
    int zero = 0;
    struct pln_event *event = sample_scratch.lookup(&zero);
    if (!event)
        return 0;
    event->sessions = *sampling & target->sessions;
    event->sample.kind = PLN_SAMPLE;
    event->sample.flags = 0;
    event->sample.tid = id;
    event->sample.start_ns = event->sample.end_ns = bpf_ktime_get_ns();
    event->sample.pid = pid;
    event->sample.waker_pid = event->sample.waker_tid = 0;
    event->sample.cpu = bpf_get_smp_processor_id();
    event->sample.state = 0;
    event->sample.weight_ns = period_ns;
    u64 thread = thread_pointer();
    read_range(&event->sample, target, thread);
    send(event, fill(ctx, event, &event->sample, target, thread), target);
    return 0;
}
