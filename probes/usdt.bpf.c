// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hook: uprobe on libpillion's USDT probe "range" (pillion_usdt.h). Question: which ranges ended, in a process whose
// rings cannot be shared? Cost: about 2 µs per range in the job, so the rings are the default. ARG_RECORD, ARG_NAME
// and ARG_LENGTH read the probe's arguments from the places that its ELF note names.

// The names whose text was sent: (pid, string id).
BPF_TABLE("lru_hash", u64, u8, named, 65536);

int on_usdt_range(struct pt_regs *ctx) {
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    int zero = 0;
    struct pln_target *target = targets.lookup(&pid);
    struct pln_settings *set = settings.lookup(&zero);
    struct pln_event *event = scratch.lookup(&zero);
    if (!target || !set || !event)
        return 0;
    __builtin_memset(event, 0, offsetof(struct pln_event, frames));
    event->sessions = target->sessions & set->usdt_sessions;
    if (!event->sessions)
        return 0;
    struct pln_range range = {};
    if (read_user(&range, sizeof range, (void *)ARG_RECORD(ctx))) {
        count(PLN_COUNT_LOST_OTHER);
        return 0;
    }
    event->sample.pid = pid;
    event->sample.tid = range.tid;
    event->sample.kind = PLN_EVENT_NAME;
    event->sample.range_name = range.name;
    u64 key = (u64)pid << 32 | range.name;
    u8 sent = 1;
    if (range.name && !named.lookup(&key)) {
        u64 length = ARG_LENGTH(ctx);
        if (length > PLN_NAME_TEXT)
            length = PLN_NAME_TEXT;
        event->sample.weight_ns = length;
        read_user(event->frames, PLN_NAME_TEXT, (void *)ARG_NAME(ctx));
        u64 size = offsetof(struct pln_event, frames) + PLN_NAME_TEXT;
        if (events.ringbuf_output(event, size, wakeup(target, size)))
            count(PLN_COUNT_LOST_OTHER);
        else
            named.update(&key, &sent);
    }
    event->sample.kind = PLN_EVENT_RANGE;
    __builtin_memcpy(event->frames, &range, sizeof range);
    send(event, sizeof range / 8, target);
    return 0;
}
