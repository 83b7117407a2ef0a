// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hook: uprobes on USDT probes that the user named, of any file. Question: when did a recorded thread come by, and with
// which arguments? Cost: about 3 µs per hit in a process that is recorded, 0.8 µs in others that map the file: all of
// them stop there while it is attached (tests/bench/usdt_hits.py).

int on_user_probe(struct pt_regs *ctx) {
    struct pln_visit visit = {};
    if (!read_visit(ctx, &visit))
        return 0;
    struct pln_probe_hit *hit = events.ringbuf_reserve(sizeof(struct pln_probe_hit));
    if (!hit) {
        count(PLN_COUNT_LOST_PROBES);
        return 0;
    }
    __builtin_memset(hit, 0, sizeof *hit);
    hit->sample.kind = PLN_EVENT_PROBE;
    hit->sample.tid = bpf_get_current_pid_tgid();
    hit->sample.pid = visit.pid;
    hit->sample.range_name = visit.cookie;
    hit->sample.start_ns = bpf_ktime_get_ns();
    hit->sessions = visit.sessions;
    struct pln_open open = {};
    hit->sample.reserved = read_open(&open, visit.target, thread_pointer());
    hit->sample.range_seq = open.seq;
    hit->open_ns = open.start_ns;
    u64 unread = 0;
#pragma unroll
    for (u32 i = 0; i < PLN_PROBE_ARGS; i++) {
        u64 value = 0;
        if (i < visit.site->arg_count && read_argument(ctx, &visit.site->args[i], &value))
            unread |= 1ULL << i;
        hit->args[i] = value;
    }
    hit->sample.weight_ns = unread;
    events.ringbuf_submit(hit, wakeup(visit.target, sizeof *hit));
    return 0;
}
