/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_detach.h"

#include <time.h>

#include "../clock.h"
#include "../job/process.h"
#include "cupti_api.h"
#include "cupti_buffers.h"
#include "cupti_calls.h"

#define PAUSE_NS 200000u
#define WAIT_NS 20000000u /* most calls end within microseconds; one that waits for the device leaves CUPTI later */
#define GOING_WAIT_NS 1000000000u /* another thread is at it */

enum { AWAY, ATTACHED, WANTED, GOING };

static struct {
    int state;
    void *subscriber;
} attachment;

static void pause_a_while(void) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static bool claim(int from, int to) {
    /* Acquire, pairs with the release in go(): the one who comes next sees CUPTI gone. */
    return __atomic_compare_exchange_n(&attachment.state, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void go(void) {
    (void)cupti_api.unsubscribe(attachment.subscriber);
    if (cupti_api.finalize != NULL && cupti_api.finalize() == CUPTI_SUCCESS)
        cupti_buffers_reclaim();
    __atomic_store_n(&attachment.state, AWAY, __ATOMIC_RELEASE);
}

void cupti_detach_at_exit(void) {
    if (PLN_UNLIKELY(__atomic_load_n(&attachment.state, __ATOMIC_RELAXED) == WANTED) && claim(WANTED, GOING))
        go();
}

void cupti_detach(void) {
    if (!claim(ATTACHED, WANTED))
        return;
    uint64_t deadline_ns = pln_now_ns() + WAIT_NS;
    while (__atomic_load_n(&attachment.state, __ATOMIC_ACQUIRE) != AWAY && pln_now_ns() < deadline_ns) {
        if (!cupti_calls_in_flight() && claim(WANTED, GOING))
            go();
        else
            pause_a_while();
    }
}

static bool is_going(void) {
    return __atomic_load_n(&attachment.state, __ATOMIC_ACQUIRE) == GOING; /* pairs with the release in go() */
}

static void await_going(void) {
    uint64_t deadline_ns = pln_now_ns() + GOING_WAIT_NS;
    while (is_going() && pln_now_ns() < deadline_ns)
        pause_a_while();
}

void cupti_detach_now(void) {
    if (claim(WANTED, GOING)) {
        (void)cupti_api.unsubscribe(attachment.subscriber);
        /* Not finalize(), which would end what another has begun with CUPTI meanwhile. Release, pairs with is_going(). */
        __atomic_store_n(&attachment.state, AWAY, __ATOMIC_RELEASE);
    }
    await_going();
}

int cupti_attach(void **subscriber) {
    int result = CUPTI_SUCCESS;
    await_going();
    if (is_going())
        return CUPTI_MULTIPLE_SUBSCRIBERS; /* it is ourselves */
    if (!claim(WANTED, ATTACHED)) {
        result = cupti_api.subscribe(&attachment.subscriber, cupti_calls_callback, NULL);
        if (result == CUPTI_SUCCESS)
            __atomic_store_n(&attachment.state, ATTACHED, __ATOMIC_RELAXED);
    }
    *subscriber = attachment.subscriber;
    return result;
}
