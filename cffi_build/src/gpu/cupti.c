/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of CUPTI. While none runs nothing of it is enabled.
 */
#define _GNU_SOURCE
#include "cupti.h"

#include <stdlib.h>

#include "../job/control.h"
#include "../job/process.h"
#include "cupti_activities.h"
#include "cupti_api.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"
#include "cupti_clock.h"
#include "cupti_aside.h"
#include "cupti_await.h"
#include "cupti_detach.h"
#include "cupti_functions.h"
#include "cupti_notice.h"
#include "cupti_presence.h"
#include "cupti_reading.h"

/* Full buffers come by themselves. For the others every tenth tick, 500 ms: what a job that is killed loses at most. */
#define FLUSH_TICKS 10

/* Jobs queue work some milliseconds ahead. */
#define DEVICES_WAIT_NS 100000000u
#define DEVICES_PAUSE_NS 1000000u

static struct {
    pthread_mutex_t mutex; /* the end of the process against everything else, whose calls exclude each other */
    bool runs;
    bool tried;          /* in this session */
    bool ended;          /* with the process: CUPTI may be gone */
    bool aside;          /* another has CUPTI, with our leave */
    bool will_be_called; /* by libcuda: to subscribe before would have it and us wait for each other */
    bool is_told_elsewhere;
    bool lent; /* it was, and has not been ours since */
    bool told; /* in this session: that CUPTI is not to be had */
    uint32_t generation; /* of the process that uses CUPTI; 0: none did */
    uint32_t epoch;
    unsigned ticks;
} session = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- begin ---- */

static bool subscribe(void **subscriber) {
    int result = cupti_attach(subscriber);
    if (result == CUPTI_SUCCESS)
        return true;
    if (result == CUPTI_MULTIPLE_SUBSCRIBERS && session.lent && !session.told)
        cupti_notice("nothing of CUDA is recorded until torch's profiler lets go of CUPTI, which serves one at a time: "
                     "it does after each profile where TEARDOWN_CUPTI=1 is set");
    else if (result == CUPTI_MULTIPLE_SUBSCRIBERS && !session.lent)
        cupti_notice("nothing of CUDA is recorded: another profiler holds CUPTI in this process, e.g. torch.profiler "
                     "(Kineto) or Nsight Systems, and CUPTI serves one at a time");
    else if (!session.told)
        cupti_notice("nothing of CUDA is recorded: cuptiSubscribe failed with %d", result);
    session.told = true;
    return false;
}

static void enable_calls(void *subscriber) {
    static const struct {
        uint32_t domain;
        const char *name;
    } domains[] = {{CUPTI_RUNTIME, "runtime"}, {CUPTI_DRIVER, "driver"}};
    for (unsigned i = 0; i < sizeof domains / sizeof *domains; i++) {
        int result = cupti_api.enable_domain(1, subscriber, domains[i].domain);
        if (result != CUPTI_SUCCESS)
            cupti_notice("calls of CUDA's %s are not recorded: cuptiEnableDomain failed with %d", domains[i].name,
                         result);
        else
            cupti_leave_quiet_out(subscriber, domains[i].domain);
    }
    if (cupti_api.enable_callback != NULL)
        (void)cupti_api.enable_callback(1, subscriber, CUPTI_RESOURCE, CUPTI_CONTEXT_DESTROY_STARTING);
}

static void end(bool waits);

/* Before CUPTI ends, since it was loaded before this was registered. */
static void at_exit(void) {
    pthread_mutex_lock(&session.mutex);
    if (session.runs)
        end(false); /* the devices' work ends with the process */
    session.ended = true;
    pthread_mutex_unlock(&session.mutex);
}

static void begin(void) {
    static bool exit_handled;
    void *subscriber;
    if ((!session.told && !cupti_api_load()) || !subscribe(&subscriber)) /* each session is told once what is missing */
        return;
    if (!exit_handled)
        exit_handled = atexit(at_exit) == 0;
    session.generation = pln_process.generation;
    session.epoch++;
    session.ticks = 0;
    cupti_clock_begin();
    if (cupti_api.set_thread_ids != NULL)
        (void)cupti_api.set_thread_ids(CUPTI_SYSTEM_THREAD_IDS);
    cupti_reading_begin(session.epoch);
    cupti_calls_prepare();
    enable_calls(subscriber);
    cupti_calls_begin(session.epoch); /* before the activities, so that work has its call */
    cupti_activities_begin();
    session.lent = false;
    session.runs = true;
}

/* ---- end ---- */

/* What devices still do gets its times when it is done; what they have not begun by then takes longer than we wait. */
static void await_devices(void) {
    uint64_t deadline_ns = pln_now_ns() + DEVICES_WAIT_NS;
    for (;;) {
        (void)cupti_api.flush_all(CUPTI_FLUSH_COMPLETED);
        cupti_clock_tick();
        cupti_read_buffers();
        if (!cupti_buffers_are_out() || pln_now_ns() >= deadline_ns)
            return;
        nanosleep(&(struct timespec){.tv_nsec = DEVICES_PAUSE_NS}, NULL);
    }
}

static void end(bool waits) {
    cupti_activities_end();
    cupti_calls_end();
    if (waits)
        await_devices();
    (void)cupti_api.flush_all(CUPTI_FLUSH_FORCED);
    cupti_clock_tick();
    cupti_count_dropped(NULL, 0);
    cupti_read_buffers();
    cupti_clock_tell();
    cupti_buffers_trim();
    session.runs = false;
}

/* ---- as the control thread sees it ---- */

/* CUDA does not work in the fork child of a process that has used it. */
static bool is_of_parent(void) {
    return session.generation != 0 && session.generation != pln_process.generation;
}

/* torch's profiler lets go of CUPTI some time after its end, or never. */
static bool tries_again(void) {
    return session.lent && !session.aside && !session.runs && ++session.ticks % FLUSH_TICKS == 0;
}

/* Once a session, as soon as the process has a driver. */
static void try_to_begin(void) {
    if ((session.tried && !tries_again()) || session.ended || session.will_be_called || is_of_parent() ||
        !cupti_driver_is_loaded())
        return;
    session.tried = true;
    if (!session.aside)
        begin();
    else if (!session.is_told_elsewhere)
        cupti_notice("nothing of CUDA is recorded while torch's profiler runs in this process: it uses CUPTI, which "
                     "serves one at a time");
}

static void start(void) {
    pthread_mutex_lock(&session.mutex);
    session.tried = session.told = false;
    try_to_begin();
    pthread_mutex_unlock(&session.mutex);
}

static void tick(void) {
    pthread_mutex_lock(&session.mutex);
    try_to_begin();
    if (session.runs) {
        if (++session.ticks % FLUSH_TICKS == 0)
            (void)cupti_api.flush_all(CUPTI_FLUSH_COMPLETED);
        cupti_clock_tick();
        cupti_count_dropped(NULL, 0);
        cupti_read_buffers();
    }
    pthread_mutex_unlock(&session.mutex);
}

static void stop(void) {
    pthread_mutex_lock(&session.mutex);
    if (session.runs) {
        end(true);
        cupti_detach();
    }
    pthread_mutex_unlock(&session.mutex);
}

static void forget(void) {
    session.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    session.runs = false;
    cupti_buffers_forget();
}

static bool holds_back(void) {
    return session.runs;
}

static struct pln_control control = {
    .start = start, .tick = tick, .stop = stop, .forget = forget, .holds_back = holds_back};

/* ---- coming in ---- */

static void be_called(void) {
    __atomic_store_n(&session.will_be_called, false, __ATOMIC_RELAXED);
}

static bool will_be_called(void) {
    return __atomic_load_n(&session.will_be_called, __ATOMIC_RELAXED); /* changes under the mutex of control.c */
}

/* libcuda calls it within cuInit(). CUDA starts whatever we return. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    if (cupti_is_unwanted())
        return 1;
    pln_control_add(&control);
    if (will_be_called())
        pln_control_change(&control, be_called);
    return 1;
}

/* Where libcuda will call us, subscribing before it does would have it call us from within that. */
static bool is_for_us(void) {
    return !cupti_is_unwanted() && !cupti_is_injected();
}

void pln_cupti_look(void) {
    if (is_for_us() && (cupti_driver_is_loaded() || cupti_runtime_is_loaded()))
        pln_control_add(&control);
}

/* ---- CUDA to come ---- */

static void expect_call(void) {
    __atomic_store_n(&session.will_be_called, cupti_inject(), __ATOMIC_RELAXED);
}

void pln_cupti_await(void) {
    if (!is_for_us())
        return;
    if (!cupti_driver_is_loaded())
        pln_control_change(&control, expect_call);
    if (!will_be_called())
        pln_control_add(&control);
}

void pln_cupti_await_no_more(void) {
    cupti_inject_no_more();
    if (will_be_called())
        pln_control_change(&control, be_called);
}

/* ---- stepping aside ---- */

static void step_aside(void) {
    session.aside = true;
    cupti_detach_now();
}

static void step_aside_quietly(void) {
    session.is_told_elsewhere = true;
    step_aside();
}

static void come_back(void) {
    session.aside = session.is_told_elsewhere = false;
    session.lent = true;
}

void pln_cupti_step_aside(int how) {
    static int last = PLN_CUPTI_BACK;
    if (__atomic_exchange_n(&last, how, __ATOMIC_RELAXED) == how)
        return; /* and a session goes on undisturbed */
    pln_control_change(&control, how == PLN_CUPTI_BACK      ? come_back
                                 : how == PLN_CUPTI_QUIETLY ? step_aside_quietly
                                                            : step_aside);
}
