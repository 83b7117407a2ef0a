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

// Threads of the task's process that live; without the one that is exiting.
static __always_inline u32 live_threads(void *task) {
    void *signal = 0;
    u32 live = 1;
    read_kernel(&signal, sizeof signal, task + TASK_SIGNAL);
    read_kernel(&live, sizeof live, signal + SIGNAL_LIVE);
    return live;
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
    struct pln_thread *fresh = scratch_thread.lookup(&zero);
    if (!fresh)
        return 0;
    __builtin_memset(fresh, 0, sizeof *fresh);
    struct pln_thread_time *time = &fresh->time;
    time->first_ns = time->since_ns = since_ns;
    time->pid = pid;
    time->state = state;
    time->runtime_ns = runtime(task);
    read_kernel(&time->comm, sizeof time->comm, task + TASK_COMM);
    // The wait it may be in: no stack, nobody asked for it yet.
    fresh->wait.kind = PLN_WAIT;
    fresh->wait.tid = tid;
    fresh->wait.pid = pid;
    fresh->wait.state = 1;
    if (threads.update(&tid, fresh))
        count(PLN_COUNT_LOST_THREADS);
    return threads.lookup(&tid);
}

// The wait is over at `now`: counts it, and sends it if it was long enough.
static __always_inline void arrive(u32 tid, struct pln_thread *thread, struct pln_target *target, u64 now) {
    struct pln_thread_time *time = &thread->time;
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
    struct pln_event *event = thread->frames ? wait_stacks.lookup(&tid) : 0;
    if (!event) {
        event = scratch.lookup(&zero);
        if (!event)
            return;
        event->n_kernel = event->n_native = event->n_python = 0;
    }
    event->sample = thread->wait;
    // A wait that began before we looked is wanted by who looks now.
    event->sessions = thread->sessions ? thread->sessions : target->sessions;
    event->sample.start_ns = start_ns;
    event->sample.end_ns = now;
    event->sample.cpu = bpf_get_smp_processor_id();
    event->sample.weight_ns = runnable_ns;
    send(event, thread->frames, target);
}

// The room for a thread's stack; 0 when the kernel has no memory for it now.
static __always_inline struct pln_event *stack_room(u32 tid) {
    struct pln_event *event = wait_stacks.lookup(&tid);
    if (event)
        return event;
    int zero = 0;
    struct pln_event *blank = scratch.lookup(&zero);
    if (!blank || wait_stacks.update(&tid, blank)) {
        count(PLN_COUNT_LOST_STACKS);
        return 0;
    }
    return wait_stacks.lookup(&tid);
}

static __always_inline void leave(void *ctx, void *prev, bool preempted, u64 now) {
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32, tid = id;
    u32 state = preempted ? 0 : TASK_STATE(ctx, prev) & 0xff;
    struct pln_thread *thread = threads.lookup(&tid);
    if (thread && thread->time.state == PLN_THREAD_EXITING) {
        if (state & TASK_DEAD) {
            threads.delete(&tid);
            wait_stacks.delete(&tid);
        }
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
        arrive(tid, thread, target, missed_arrival(time, runtime_ns, now));
    time->on_cpu_ns += now - time->since_ns;
    time->state = PLN_THREAD_OFF;
    time->since_ns = now;
    time->runtime_ns = runtime_ns;
    time->switches += 1;
    time->woken_ns = state ? 0 : now;

    thread->sessions = target->sessions;
    thread->wait.flags = state ? 0 : PLN_PREEMPTED;
    thread->wait.waker_pid = thread->wait.waker_tid = 0;
    thread->wait.state = state;
    u64 pointer = thread_pointer();
    read_range(&thread->wait, target, pointer);
    struct pln_event *event = stack_room(tid);
    thread->frames = event ? fill(ctx, event, &thread->wait, target, pointer) : 0;
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
        arrive(tid, thread, target, now);
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
    thread->wait.waker_pid = id >> 32;
    thread->wait.waker_tid = id;
    return 0;
}
