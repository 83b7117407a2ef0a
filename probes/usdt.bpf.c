// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hook: uprobes on the USDT probes range, mark, thread, notice and activity of every libpillion.so in use
// (pillion_usdt.h). Question: what does a process record, whose rings cannot be shared? Cost: about 2 µs per record in
// the job, so the rings are the default.
//
// A uprobe's program may be interrupted by the scheduler's, and others run on its CPU meanwhile: it may not work in a
// per-CPU map, so it reserves its room in the ring buffer first.

// What the agent knows of a location, by the cookie it was attached with.
BPF_TABLE("hash", u32, struct pln_probe_site, probe_sites, 16384);

// The strings whose text was sent, (pid, string id), and in which round of the site.
BPF_TABLE("lru_hash", u64, u32, named, 65536);

static u64 (*attach_cookie)(void *ctx) = (void *)BPF_FUNC_get_attach_cookie;

// Who came by a probe, and where.
struct pln_visit {
    u32 pid;
    u32 cookie;
    struct pln_target *target;
    struct pln_probe_site *site;
    u64 sessions; // those that want the probe of this process
};

// Returns 0 where nobody wants it.
static __always_inline u64 read_visit(void *ctx, struct pln_visit *visit) {
    visit->pid = bpf_get_current_pid_tgid() >> 32;
    visit->target = targets.lookup(&visit->pid);
    if (!visit->target)
        return 0;
    visit->cookie = attach_cookie(ctx);
    visit->site = probe_sites.lookup(&visit->cookie);
    if (!visit->site)
        return 0;
    visit->sessions = visit->site->sessions & visit->target->sessions;
    return visit->sessions;
}

// The verifier wants constant offsets into ctx, and a register is known at run time only: it is read as memory.
static __always_inline u64 read_register(void *ctx, u8 offset) {
    u64 value = 0;
    if (offset != PLN_NO_REGISTER)
        read_kernel(&value, sizeof value, ctx + offset);
    return value;
}

// Returns not 0 where the argument cannot be read; *value is 0 then.
static __always_inline long read_argument(void *ctx, struct pln_probe_arg *arg, u64 *value) {
    long failed = arg->form == PLN_ARG_UNKNOWN;
    u64 found = arg->value;
    if (arg->form == PLN_ARG_REGISTER)
        found = read_register(ctx, arg->base);
    if (arg->form == PLN_ARG_MEMORY) {
        found += read_register(ctx, arg->base) + (read_register(ctx, arg->index) << (arg->shift & 3));
        u64 at = found;
        found = 0;
        if (arg->size == 8)
            failed = read_user(&found, 8, (void *)at);
        else if (arg->size == 4)
            failed = read_user(&found, 4, (void *)at);
        else if (arg->size == 2)
            failed = read_user(&found, 2, (void *)at);
        else
            failed = read_user(&found, 1, (void *)at);
    }
    u32 unused_bits = (64 - 8 * arg->size) & 63;
    found <<= unused_bits;
    *value = arg->is_signed ? (u64)((s64)found >> unused_bits) : found >> unused_bits;
    return failed;
}

// Sends a string of the log at `log` to who has not got it.
static __always_inline void tell_string(u64 log, u32 id, const struct pln_visit *visit) {
    u64 key = (u64)visit->pid << 32 | id;
    u32 *sent = named.lookup(&key);
    u32 length = 0, round = visit->site->round;
    if (!id || (sent && *sent == round) || read_user(&length, sizeof length, (void *)(log + 8 * (u64)id)))
        return;
    const u64 size = offsetof(struct pln_event, frames) + PLN_NAME_TEXT;
    struct pln_event *event = events.ringbuf_reserve(offsetof(struct pln_event, frames) + PLN_NAME_TEXT);
    if (!event) {
        count(PLN_COUNT_LOST_OTHER);
        return;
    }
    __builtin_memset(event, 0, offsetof(struct pln_event, frames));
    event->sessions = visit->sessions;
    event->sample.kind = PLN_EVENT_NAME;
    event->sample.pid = visit->pid;
    event->sample.range_name = id;
    event->sample.weight_ns = length < PLN_NAME_TEXT ? length : PLN_NAME_TEXT;
    read_user(event->frames, PLN_NAME_TEXT, (void *)(log + 8 * (u64)id + 8));
    events.ringbuf_submit(event, wakeup(visit->target, size));
    named.update(&key, &round);
}

int on_record(struct pt_regs *ctx) {
    struct pln_visit visit = {};
    if (!read_visit(ctx, &visit))
        return 0;
    const u64 size = offsetof(struct pln_event, frames) + sizeof(struct pln_range);
    struct pln_event *event = events.ringbuf_reserve(offsetof(struct pln_event, frames) + sizeof(struct pln_range));
    if (!event) {
        count(PLN_COUNT_LOST_OTHER);
        return 0;
    }
    struct pln_range range = {};
    u64 record = 0, name = 0;
    if (read_argument(ctx, &visit.site->args[0], &record) || read_argument(ctx, &visit.site->args[1], &name) ||
        read_user(&range, sizeof range, (void *)record)) {
        events.ringbuf_discard(event, BPF_RB_NO_WAKEUP);
        count(PLN_COUNT_LOST_OTHER);
        return 0;
    }
    u64 log = name - 8 * (u64)range.name - 8; // pillion_usdt.h
    tell_string(log, range.name, &visit);
    tell_string(log, range.args, &visit);
    __builtin_memset(event, 0, offsetof(struct pln_event, frames));
    event->sessions = visit.sessions;
    event->sample.kind = PLN_EVENT_RANGE;
    event->sample.pid = visit.pid;
    event->sample.tid = range.tid;
    __builtin_memcpy(event->frames, &range, sizeof range);
    events.ringbuf_submit(event, wakeup(visit.target, size));
    return 0;
}
