/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain thread of a process that records itself. Producers never wake it: it polls, every millisecond while there is
 * much to do, since Python fills a ring of 131072 records in about 40 ms, and less and less often while there is nothing
 * (a wake-up costs up to 60 us of CPU on a virtual machine).
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "cupti_await.h"
#include "self.h"
#include "worker.h"

#define PERIOD_BUSY_NS 1000000u
#define PERIOD_SOME_NS 4000000u
#define PERIOD_NONE_NS 20000000u
#define PERIOD_STEP_NS 100000u /* from SOME to NONE in two seconds */
#define BUSY_PERCENT 3 /* of the fullest ring */
/* Together 20 ms: a refusal takes microseconds, and longer where the agent is preempted in the middle. */
#define BUSY_PAUSE_NS 200000
#define BUSY_TRIES 100
#define REGION_NUMBER 1 /* the only region of its spool */

static struct {
    pthread_mutex_t mutex; /* held around every use of the reader, and over a fork */
    pthread_cond_t stopping;
    bool stop;
    pthread_t thread;
    pln_reader *reader; /* NULL: no session */
    struct pln_sink sink;
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t next_period_ns(uint64_t period_ns, int64_t drained, unsigned fill_percent) {
    if (fill_percent >= BUSY_PERCENT)
        return PERIOD_BUSY_NS;
    if (drained > 0)
        return PERIOD_SOME_NS;
    return period_ns < PERIOD_NONE_NS ? period_ns + PERIOD_STEP_NS : PERIOD_NONE_NS;
}

static void *drain(void *unused) {
    struct pln_sink *sinks[] = {&self.sink};
    uint64_t period_ns = PERIOD_BUSY_NS;
    pthread_setname_np(pthread_self(), "pillion-drain");
    pthread_mutex_lock(&self.mutex);
    while (!self.stop) {
        uint64_t wake_ns = pln_now_ns() + period_ns;
        struct timespec wake = {(time_t)(wake_ns / 1000000000u), (long)(wake_ns % 1000000000u)};
        pthread_cond_timedwait(&self.stopping, &self.mutex, &wake);
        pln_rings_make_pages();
        int64_t drained = pln_reader_drain(self.reader, sinks, 1);
        period_ns = next_period_ns(period_ns, drained, pln_reader_fill(self.reader));
    }
    pthread_mutex_unlock(&self.mutex);
    return unused;
}

static int start_thread(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self.stopping, &attributes);
    pthread_condattr_destroy(&attributes);
    return -pln_worker_start(&self.thread, drain);
}

static void close_session(void) {
    if (self.reader != NULL)
        pln_reader_close(self.reader);
    if (self.sink.fd > 0)
        close(self.sink.fd);
    self.reader = NULL;
    self.sink = (struct pln_sink){0};
}

/* An agent that declines the region, which has just been announced, has it for a moment. */
static int begin(void) {
    const struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};
    int error = pln_reader_begin(self.reader, PLN_CONSUMER_SELF);
    for (unsigned tries = 0; error == -EBUSY && tries < BUSY_TRIES; tries++) {
        nanosleep(&pause, NULL);
        error = pln_reader_begin(self.reader, PLN_CONSUMER_SELF);
    }
    return error;
}

static int open_session(int spool_fd) {
    int error = 0;
    self.sink.fd = fcntl(spool_fd, F_DUPFD_CLOEXEC, 3);
    if (self.sink.fd < 0)
        return -errno;
    self.reader = pln_reader_open(pln_region_fd(), (uint32_t)getpid(), REGION_NUMBER, &error);
    if (self.reader == NULL)
        return -error;
    error = begin();
    if (error != 0)
        return error;
    self.stop = false;
    error = start_thread();
    if (error != 0)
        pln_reader_end(self.reader, NULL, 0);
    return error;
}

void pln_sources_follow(void) {
    pln_control_update();
}

int pln_self_start(int spool_fd) {
    int error = pln_setup();
    if (error != 0)
        return error;
    pthread_mutex_lock(&self.mutex);
    if (self.reader != NULL) {
        error = -EBUSY;
    } else {
        error = open_session(spool_fd);
        if (error != 0)
            close_session();
    }
    pthread_mutex_unlock(&self.mutex);
    if (error == 0) {
        pln_cupti_await();
        pln_sources_follow();
    }
    return error;
}

int pln_self_stop(struct pln_sink *sink, struct pln_loss *losses, unsigned max) {
    pthread_mutex_lock(&self.mutex);
    if (self.reader == NULL || self.stop) {
        pthread_mutex_unlock(&self.mutex);
        return -ESRCH;
    }
    pln_reader_announce_end(self.reader);
    pthread_mutex_unlock(&self.mutex);
    pln_control_update(); /* what is held back comes into the rings while the thread drains them */
    pthread_mutex_lock(&self.mutex);
    self.stop = true;
    pthread_cond_signal(&self.stopping);
    pthread_mutex_unlock(&self.mutex);
    pthread_join(self.thread, NULL);

    pthread_mutex_lock(&self.mutex);
    struct pln_sink *sinks[] = {&self.sink};
    pln_reader_end(self.reader, sinks, 1);
    unsigned count = pln_reader_losses(self.reader, losses, max);
    *sink = self.sink;
    close_session();
    pthread_mutex_unlock(&self.mutex);
    pln_cupti_await_no_more();
    return (int)count;
}

void pln_self_prepare(void) {
    pthread_mutex_lock(&self.mutex);
}

void pln_self_parent(void) {
    pthread_mutex_unlock(&self.mutex);
}

/* The thread did not come along into the fork child, and the session is the parent's. */
void pln_self_forget(void) {
    close_session();
    self.stop = false;
    self.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
