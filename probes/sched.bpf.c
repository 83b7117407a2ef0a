// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hooks: raw tracepoints sched_switch, sched_wakeup, sched_wakeup_new. Question: where, for how long and on whom does a
// thread wait? Cost: two hash lookups per switch of threads that nobody records; about 3 µs at a recorded thread's
// switch-out, when its stack is taken. It has to be taken there: at switch-in the thread's memory is not mapped yet.

#define TASK_DEAD 0x80

static __always_inline u32 task_field(void *task, u32 offset) {
    u32 value = 0;
    read_kernel(&value, sizeof value, task + offset);
    return value;
}

// The scheduler's own account of the thread's CPU time.
static __always_inline u64 runtime(void *task) {
    u64 ns = 0;
    read_kernel(&ns, sizeof ns, task + TASK_RUNTIME);
    return ns;
}

// When a thread that we believe off the CPU came back to it. Some kernels switch from an idle CPU, or from a task
// they hide, without the tracepoint: 1 in 60 switches on a guest with haltpoll.
static __always_inline u64 missed_arrival(struct pln_thread_time *time, u64 runtime_ns, u64 now) {
    u64 ran_ns = runtime_ns - time->runtime_ns;
    return ran_ns < now - time->since_ns ? now - ran_ns : time->since_ns;
}

// Times of a thread never seen before. It has been in the given state since its process became a target.
static __always_inline struct pln_thread *observe(u32 tid, u32 pid, u64 since_ns, u32 state, void *task) {
    int zero = 0;
    struct pln_thread *room = scratch.lookup(&zero);
    if (!room)
        return 0;
    struct pln_thread_time *time = &room->time;
    __builtin_memset(time, 0, sizeof *time);
    time->first_ns = time->since_ns = since_ns;
    time->pid = pid;
    time->state = state;
    time->runtime_ns = runtime(task);
    read_kernel(&time->comm, sizeof time->comm, task + TASK_COMM);
    // The wait it may be in: no stack, nobody asked for it yet.
    __builtin_memset(&room->wait, 0, offsetof(struct pln_event, frames));
    room->wait.sample.kind = PLN_WAIT;
    room->wait.sample.tid = tid;
    room->wait.sample.pid = pid;
    room->wait.sample.state = 1;
    if (threads.update(&tid, room))
        count(PLN_COUNT_LOST_THREADS);
    return threads.lookup(&tid);
}

// The wait is over at `now`: counts it, and sends it if it was long enough.
static __always_inline void arrive(struct pln_thread *thread, struct pln_target *target, u64 now) {
    struct pln_thread_time *time = &thread->time;
    struct pln_event *wait = &thread->wait;
    u64 start_ns = time->since_ns;
    u64 runnable_ns = time->woken_ns && time->woken_ns < now ? now - time->woken_ns : 0;
    time->off_cpu_ns += now - start_ns;
    time->runnable_ns += runnable_ns;
    time->state = PLN_THREAD_ON;
    time->since_ns = now;

    int zero = 0;
    struct pln_settings *set = settings.lookup(&zero);
    if (!set || now - start_ns < set->wait_threshold_ns)
        return;
    if (!wait->sessions)
        wait->sessions = target->sessions; // it began before we looked: no stack, but its time counts
    wait->sample.start_ns = start_ns;
    wait->sample.end_ns = now;
    wait->sample.cpu = bpf_get_smp_processor_id();
    wait->sample.weight_ns = runnable_ns;
    send(wait, wait->sample.reserved, target);
}

static __always_inline void leave(void *ctx, void *prev, bool preempted, u64 now) {
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32, tid = id;
    u32 state = preempted ? 0 : TASK_STATE(ctx, prev) & 0xff;
    struct pln_thread *thread = threads.lookup(&tid);
    if (thread && thread->time.state == PLN_THREAD_EXITING) {
        if (state & TASK_DEAD)
            threads.delete(&tid);
        return;
    }
    struct pln_target *target = targets.lookup(&pid);
    if (!target)
        return;
    if (!thread)
        thread = observe(tid, pid, target->start_ns, PLN_THREAD_ON, prev);
    if (!thread)
        return;
    struct pln_thread_time *time = &thread->time;
    u64 runtime_ns = runtime(prev);
    if (time->state == PLN_THREAD_OFF)
        arrive(thread, target, missed_arrival(time, runtime_ns, now));
    time->on_cpu_ns += now - time->since_ns;
    time->state = PLN_THREAD_OFF;
    time->since_ns = now;
    time->runtime_ns = runtime_ns;
    time->switches += 1;
    time->woken_ns = state ? 0 : now;

    struct pln_event *wait = &thread->wait;
    wait->sessions = target->sessions;
    wait->sample.flags = state ? 0 : PLN_PREEMPTED;
    wait->sample.waker_pid = wait->sample.waker_tid = 0;
    wait->sample.state = state;
    wait->sample.reserved = fill(ctx, wait, target); // until it is sent: how much of frames[]
}

static __always_inline void enter(void *next, u64 now) {
    u32 tid = task_field(next, TASK_PID);
    if (!tid)
        return; // idle
    struct pln_thread *thread = threads.lookup(&tid);
    u32 pid = thread ? thread->time.pid : task_field(next, TASK_TGID);
    struct pln_target *target = targets.lookup(&pid);
    if (!target)
        return;
    if (!thread)
        thread = observe(tid, pid, target->start_ns, PLN_THREAD_OFF, next);
    if (thread && thread->time.state == PLN_THREAD_OFF)
        arrive(thread, target, now);
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
    if (!thread || thread->time.state != PLN_THREAD_OFF || thread->time.woken_ns)
        return 0;
    u64 id = bpf_get_current_pid_tgid();
    thread->time.woken_ns = bpf_ktime_get_ns();
    thread->wait.sample.waker_pid = id >> 32;
    thread->wait.sample.waker_tid = id;
    return 0;
}
