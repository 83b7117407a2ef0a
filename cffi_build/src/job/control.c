/* SPDX-License-Identifier: Apache-2.0
 *
 * The control thread of a process. Whoever changes what it acts on rings region.bell; it also looks once a second, since
 * a tracer that raises a semaphore rings nothing. A process without sources has no such thread.
 */
#define _GNU_SOURCE
#include "control.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../bell.h"
#include "process.h"
#include "worker.h"

#define LOOK_NS 1000000000u

/* Longer than any source keeps it: see pln_control_prepare(). */
#define FORK_WAIT_S 1

static pthread_mutex_t mutex = PLN_MUTEX_INITIALIZER; /* around every call into a source, and over a fork */
static __thread bool held_over_fork;
static struct pln_control *controls;
static bool thread_runs; /* in this process */
static bool exiting;     /* what a source would call may be gone already */

static bool is_wanted(const struct pln_region *region) {
    return pln_wanted() && __atomic_load_n(&region->ending, __ATOMIC_RELAXED) == 0;
}

/* Before a source may begin to hold records back: a session that ends meanwhile waits for us. */
static void may_hold_back(struct pln_region *region, const struct pln_control *control) {
    if (control->holds_back != NULL)
        __atomic_store_n(&region->holds_back, 1, __ATOMIC_RELAXED);
}

static void tell_what_is_held_back(struct pln_region *region) {
    bool holds_back = false;
    for (struct pln_control *control = controls; control != NULL; control = control->next)
        holds_back |= control->running && control->holds_back != NULL && control->holds_back();
    __atomic_store_n(&region->holds_back, holds_back, __ATOMIC_RELEASE);
}

/* Under the mutex. */
static void update(struct pln_region *region) {
    if (exiting)
        return;
    bool wanted = is_wanted(region);
    for (struct pln_control *control = controls; control != NULL; control = control->next) {
        if (wanted == control->running)
            continue;
        if (wanted)
            may_hold_back(region, control);
        control->running = wanted;
        (wanted ? control->start : control->stop)();
    }
    /* Release, pairs with the acquire in session.c: what was handed over is in the rings. */
    __atomic_store_n(&region->handed_over, !wanted, __ATOMIC_RELEASE);
    tell_what_is_held_back(region);
}

/* Under the mutex. Returns how long nothing is to be done. */
static uint32_t tick(struct pln_region *region) {
    uint32_t pause_ns = LOOK_NS;
    for (struct pln_control *control = controls; control != NULL && !exiting; control = control->next) {
        if (!control->running || control->tick == NULL)
            continue;
        may_hold_back(region, control);
        control->tick();
        pause_ns = PLN_TICK_NS;
    }
    if (pause_ns == PLN_TICK_NS)
        tell_what_is_held_back(region);
    return pause_ns;
}

static void *look_after(void *unused) {
    struct pln_region *region = pln_process.region;
    pthread_setname_np(pthread_self(), "pillion");
    for (;;) {
        uint32_t heard = __atomic_load_n(&region->bell, __ATOMIC_ACQUIRE); /* pairs with pln_ring_bell() */
        pthread_mutex_lock(&mutex);
        update(region);
        uint32_t pause_ns = tick(region);
        pthread_mutex_unlock(&mutex);
        const struct timespec pause = {pause_ns / 1000000000u, pause_ns % 1000000000u};
        syscall(SYS_futex, &region->bell, FUTEX_WAIT, heard, &pause, NULL, 0);
    }
    return unused;
}

/* Under the mutex. */
static void run_thread(void) {
    pthread_t thread;
    if (thread_runs || controls == NULL || pln_worker_start(&thread, look_after) != 0)
        return;
    pthread_detach(thread);
    thread_runs = true;
}

/* A normal end of the process: what is held back is handed over, and then nothing is touched any more. */
static void at_exit(void) {
    pthread_mutex_lock(&mutex);
    for (struct pln_control *control = controls; control != NULL; control = control->next)
        if (control->running && control->holds_back != NULL)
            control->stop();
    exiting = true;
    if (pln_process.region != NULL)
        __atomic_store_n(&pln_process.region->handed_over, 1, __ATOMIC_RELEASE); /* as in update() */
    pthread_mutex_unlock(&mutex);
}

void pln_control_add(struct pln_control *control) {
    static bool exit_handled;
    if (pln_setup() != 0)
        return;
    if (pthread_mutex_lock(&mutex) != 0)
        return; /* from within a call into this very source */
    struct pln_control *known = controls;
    while (known != NULL && known != control)
        known = known->next;
    if (known == NULL) {
        control->next = controls;
        controls = control;
    }
    if (!exit_handled)
        exit_handled = atexit(at_exit) == 0;
    update(pln_process.region);
    run_thread();
    pthread_mutex_unlock(&mutex);
}

void pln_control_update(void) {
    pthread_mutex_lock(&mutex);
    if (controls != NULL)
        update(pln_process.region);
    pthread_mutex_unlock(&mutex);
}

void pln_control_change(struct pln_control *control, void (*change)(void)) {
    pthread_mutex_lock(&mutex);
    bool runs = control->running && !exiting;
    if (runs)
        control->stop();
    change();
    if (runs) {
        may_hold_back(pln_process.region, control);
        control->start();
        tell_what_is_held_back(pln_process.region);
    }
    pthread_mutex_unlock(&mutex);
}

void pln_control_wake(void) {
    pln_ring_bell(pln_process.region);
}

void pln_control_begin(void) {
    pthread_mutex_lock(&mutex);
    run_thread();
    pthread_mutex_unlock(&mutex);
}

/* CUDA forks as well, to load the kernel's modules: within a call of ours that holds the mutex, which the mutex tells, or
 * with a lock of its own that such a call waits for. Without the mutex the child is as good: it forgets all. */
void pln_control_prepare(void) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += FORK_WAIT_S;
    held_over_fork = pthread_mutex_timedlock(&mutex, &deadline) == 0;
}

void pln_control_parent(void) {
    if (held_over_fork)
        pthread_mutex_unlock(&mutex);
}

/* The thread did not come along into the fork child; the sources did, as they were. */
void pln_control_forget(void) {
    mutex = (pthread_mutex_t)PLN_MUTEX_INITIALIZER;
    thread_runs = false;
    for (struct pln_control *control = controls; control != NULL; control = control->next) {
        if (control->running && control->forget != NULL)
            control->forget();
        control->running = false;
    }
}
