// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Hooks: raw tracepoints sched_process_fork, sched_process_exec, sched_process_exit. Question: which processes and
// threads belong to the recorded ones, from when to when? A child inherits its parent's target here, so nothing of it
// is missed. Cost: about 1 µs per fork, exec and exit.

#define FIRST_WAKEUPS 64 /* a process that dies within 64 events has its names read while it lives */

// A new thread is runnable: it waits for a CPU from its first moment.
static __always_inline void begin_thread(void *task, u32 pid, u32 tid, u64 now) {
    struct pln_thread *thread = observe(tid, pid, now, PLN_THREAD_OFF, task);
    if (!thread)
        return;
    thread->time.woken_ns = now;
    thread->wait.state = 0;
    thread->wait.flags = PLN_PREEMPTED;
}

static __always_inline void tell(u32 kind, u32 pid, u32 tid, u32 other_pid, u64 now, struct pln_target *target) {
    int zero = 0;
    struct pln_event *event = scratch.lookup(&zero);
    if (!event)
        return;
    __builtin_memset(event, 0, offsetof(struct pln_event, frames));
    event->sessions = target->sessions;
    event->sample.kind = kind;
    event->sample.pid = pid;
    event->sample.tid = tid;
    event->sample.waker_pid = other_pid;
    event->sample.start_ns = event->sample.end_ns = now;
    if (!target->wakeups)
        target->wakeups = 1;
    send(event, 0, target);
}

// args: task_struct *parent, task_struct *child
int on_fork(struct bpf_raw_tracepoint_args *ctx) {
    void *child = (void *)ctx->args[1];
    u32 parent_pid = bpf_get_current_pid_tgid() >> 32;
    struct pln_target *parent = targets.lookup(&parent_pid);
    if (!parent)
        return 0;
    u64 now = bpf_ktime_get_ns();
    u32 pid = task_field(child, TASK_TGID), tid = task_field(child, TASK_PID);
    if (pid == parent_pid) {
        begin_thread(child, pid, tid, now);
        return 0;
    }
    if (!parent->follow)
        return 0;
    struct pln_target target = *parent;
    target.sessions = parent->follow;
    target.start_ns = now;
    target.wakeups = FIRST_WAKEUPS;
    if (targets.update(&pid, &target)) {
        count(PLN_COUNT_LOST_OTHER);
        return 0;
    }
    begin_thread(child, pid, tid, now);
    tell(PLN_EVENT_FORK, pid, tid, parent_pid, now, &target);
    return 0;
}

// The new program's stack begins with the number of its arguments and their addresses; the texts lie one after the
// other, then the environment's, then the file's name (create_elf_tables() in fs/binfmt_elf.c). Returns how many bytes
// of text were read.
static __always_inline u32 read_arguments(struct pln_exec *exec, void *bprm) {
    u64 stack = 0, end = 0, first = 0;
    read_kernel(&stack, sizeof stack, bprm + BPRM_P);
    read_kernel(&end, sizeof end, bprm + BPRM_EXEC);
    if (read_user(&exec->arguments, sizeof exec->arguments, (void *)stack) ||
        read_user(&first, sizeof first, (void *)(stack + 8)))
        return 0;
    u64 size = end > first ? end - first : 0;
    if (size > PLN_EXEC_TEXT)
        size = PLN_EXEC_TEXT;
    return read_user(exec->text, size, (void *)first) ? 0 : size;
}

// args: task_struct *task, pid_t old_pid, struct linux_binprm *. Another program now: what was known of its memory is
// void.
int on_exec(struct bpf_raw_tracepoint_args *ctx) {
    u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
    u32 pid = id >> 32;
    struct pln_target *target = targets.lookup(&pid);
    if (!target)
        return 0;
    target->tss_key = target->tls_offset = 0;
    target->python = PLN_PYTHON_NONE;
    target->wakeups = FIRST_WAKEUPS;
    int zero = 0;
    struct pln_event *event = scratch.lookup(&zero);
    if (!event)
        return 0;
    __builtin_memset(event, 0, offsetof(struct pln_event, frames) + offsetof(struct pln_exec, text));
    struct pln_exec *exec = (struct pln_exec *)event->frames;
    event->sessions = target->sessions;
    event->sample.kind = PLN_EVENT_EXEC;
    event->sample.pid = pid;
    event->sample.tid = id;
    event->sample.start_ns = event->sample.end_ns = now;
    bpf_get_current_comm(exec->comm, sizeof exec->comm);
    event->sample.weight_ns = read_arguments(exec, (void *)ctx->args[2]);
    send(event, sizeof *exec / 8, target);
    return 0;
}

// args: task_struct *task, and since Linux 6.16 bool group_dead. A process ends with its last thread: the main thread
// may go before the others, and goes when another one calls exec.
int on_exit(struct bpf_raw_tracepoint_args *ctx) {
    u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
    u32 pid = id >> 32, tid = id;
    struct pln_target *target = targets.lookup(&pid);
    if (!target)
        return 0;
    struct pln_thread *thread = threads.lookup(&tid);
    if (thread) {
        struct pln_thread_time *time = &thread->time;
        if (time->state == PLN_THREAD_OFF)
            arrive(tid, thread, target, missed_arrival(time, runtime((void *)bpf_get_current_task()), now));
        time->on_cpu_ns += now - time->since_ns;
        time->since_ns = now;
        bpf_get_current_comm(&time->comm, sizeof time->comm);
        int zero = 0;
        struct pln_event *event = scratch.lookup(&zero);
        if (event) {
            __builtin_memset(event, 0, offsetof(struct pln_event, frames));
            event->sessions = target->sessions;
            event->sample.kind = PLN_EVENT_THREAD_EXIT;
            event->sample.pid = pid;
            event->sample.tid = tid;
            event->sample.start_ns = event->sample.end_ns = now;
            __builtin_memcpy(event->frames, time, sizeof *time);
            send(event, sizeof *time / 8, target);
        }
        time->state = PLN_THREAD_EXITING; // after the copy; deleted at its very last switch
    }
    if (GROUP_DEAD(ctx)) {
        tell(PLN_EVENT_EXIT, pid, tid, 0, now, target);
        targets.delete(&pid);
    }
    return 0;
}
