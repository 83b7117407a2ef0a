// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hooks: raw tracepoints sched_switch, sched_wakeup, sched_wakeup_new. Question: where, for how long and on whom does a
// thread wait? Cost: two hash lookups per switch of threads that nobody records; about 3 µs at a recorded thread's switch-out,
// when its stack is taken. It has to be taken there: at switch-in the thread's memory is not mapped yet.

static __always_inline u32 task_field(void *task, u32 offset) {
    u32 value = 0;
    bpf_probe_read_kernel(&value, sizeof value, task + offset);
    return value;
}

// Times of a thread never seen before. It has been in the given state since its process became a target.
static __always_inline struct pln_thread *observe(u32 tid, u32 pid, u64 since_ns, u32 state, void *task) {
    int zero = 0;
    struct pln_thread *room = scratch.lookup(&zero);
    if (!room) return 0;
    struct pln_thread_time *time = &room->time;
    __builtin_memset(time, 0, sizeof *time);
    time->first_ns = time->since_ns = since_ns;
    time->pid = pid;
    time->state = state;
    bpf_probe_read_kernel(&time->comm, sizeof time->comm, task + TASK_COMM);
    room->wait.sessions = 0; // no stack yet: a wait that began unseen
    room->wait.n_kernel = room->wait.n_native = room->wait.n_python = 0;
    room->wait.sample.range_seq = room->wait.sample.range_name = room->wait.sample.flags = 0;
    if (threads.update(&tid, room)) count(PLN_COUNT_LOST_THREADS);
    return threads.lookup(&tid);
}

static __always_inline void leave(void *ctx, void *prev, bool preempted, u64 now) {
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32, tid = id;
    struct pln_target *target = targets.lookup(&pid);
    if (!target) return;
    struct pln_thread *thread = threads.lookup(&tid);
    if (!thread) thread = observe(tid, pid, target->start_ns, PLN_THREAD_ON, prev);
    if (!thread) return;
    struct pln_thread_time *time = &thread->time;
    if (time->state == PLN_THREAD_ON) time->on_cpu_ns += now - time->since_ns;
    time->state = PLN_THREAD_OFF;
    time->since_ns = now;
    time->switches += 1;
    u32 state = preempted ? 0 : TASK_STATE(ctx, prev) & 0xff;
    time->woken_ns = state ? 0 : now;

    struct pln_event *wait = &thread->wait;
    wait->sessions = target->sessions;
    wait->sample.kind = PLN_WAIT;
    wait->sample.flags = state ? 0 : PLN_PREEMPTED;
    wait->sample.tid = tid;
    wait->sample.pid = pid;
    wait->sample.waker_pid = wait->sample.waker_tid = 0;
    wait->sample.state = state;
    wait->sample.reserved = fill(ctx, wait, target);
}

static __always_inline void enter(void *next, u64 now) {
    u32 tid = task_field(next, TASK_PID);
    if (!tid) return; // idle
    struct pln_thread *thread = threads.lookup(&tid);
    u32 pid = thread ? thread->time.pid : task_field(next, TASK_TGID);
    struct pln_target *target = targets.lookup(&pid);
    if (!target) return;
    if (!thread) thread = observe(tid, pid, target->start_ns, PLN_THREAD_OFF, next);
    if (!thread) return;
    struct pln_thread_time *time = &thread->time;
    struct pln_event *wait = &thread->wait;
    u64 runnable_ns = time->woken_ns ? now - time->woken_ns : 0;
    u64 start_ns = time->since_ns;
    if (time->state == PLN_THREAD_OFF) {
        time->off_cpu_ns += now - start_ns;
        time->runnable_ns += runnable_ns;
    } else {
        start_ns = now; // the switch-out was missed: count nothing twice
    }
    time->state = PLN_THREAD_ON;
    time->since_ns = now;

    int zero = 0;
    struct pln_settings *set = settings.lookup(&zero);
    if (!set || now - start_ns < set->wait_threshold_ns || now == start_ns) return;
    if (!wait->sessions) { // began before we looked: no stack, but its time counts
        wait->sessions = target->sessions;
        wait->sample.kind = PLN_WAIT;
        wait->sample.tid = tid;
        wait->sample.pid = pid;
        wait->sample.state = 1;
        wait->sample.reserved = 0;
    }
    wait->sample.start_ns = start_ns;
    wait->sample.end_ns = now;
    wait->sample.cpu = bpf_get_smp_processor_id();
    wait->sample.weight_ns = runnable_ns;
    u32 frames = wait->sample.reserved;
    send(wait, frames, target);
}

// args: bool preempt, task_struct *prev, task_struct *next, and since Linux 5.18 prev_state
int on_switch(struct bpf_raw_tracepoint_args *ctx) {
    u64 now = bpf_ktime_get_ns();
    leave(ctx, (void *)ctx->args[1], ctx->args[0], now);
    enter((void *)ctx->args[2], now);
    return 0;
}

// args: task_struct *woken. The current thread is the waker, unless an interrupt of it was.
int on_wakeup(struct bpf_raw_tracepoint_args *ctx) {
    u32 tid = task_field((void *)ctx->args[0], TASK_PID);
    struct pln_thread *thread = threads.lookup(&tid);
    if (!thread || thread->time.state != PLN_THREAD_OFF || thread->time.woken_ns) return 0;
    u64 id = bpf_get_current_pid_tgid();
    thread->time.woken_ns = bpf_ktime_get_ns();
    thread->wait.sample.waker_pid = id >> 32;
    thread->wait.sample.waker_tid = id;
    return 0;
}
