/* libcupti: the queue of records, in buffers that the client gives.
 *
 * A record that does not fit completes its buffer; a thread of the library delivers it once all that is told in it has
 * happened. Where the client gives no buffer the record is dropped, and counted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cupti.h"

enum { FORCED = 1, OVERHEAD_BUFFER_FLUSH = 1 << 16 };

typedef void (*request_function)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*complete_function)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);

struct buffer {
    uint8_t *data;
    size_t bytes, valid;
    size_t records, most_records; /* 0: as many as fit */
    uint64_t done_ns;             /* when the last of what it tells will have happened */
    struct buffer *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static request_function request;
static complete_function complete;
static struct buffer *current, *full; /* full: the oldest first */
static size_t outstanding;            /* buffers that the client gave and did not get back */
static unsigned delivering;           /* threads that are in the client's complete() */
static uint32_t period_ms; /* of cuptiActivityFlushPeriod, 0: none */
static size_t dropped, dropped_ever;
static size_t emitted[ACTIVITIES + 1], abandoned; /* the last of emitted: of an unknown kind */

/* ---- delivery; the lock is held, but for the client's function ---- */

static bool is_done(const struct buffer *buffer) {
    return CUDA(fake_gpu_is_done)(buffer->done_ns);
}

static void deliver(struct buffer *buffer) {
    complete_function deliver_to = complete;
    uint64_t start_ns = cupti_now();
    if (!is_done(buffer))
        forget_unfinished(buffer->data, buffer->valid, start_ns);
    delivering++;
    outstanding--;
    pthread_mutex_unlock(&lock);
    deliver_to(NULL, 0, buffer->data, buffer->bytes, buffer->valid);
    if (kind_enabled(OVERHEAD))
        record_overhead(OVERHEAD_BUFFER_FLUSH, start_ns, cupti_now());
    pthread_mutex_lock(&lock);
    free(buffer);
    delivering--;
    pthread_cond_broadcast(&changed);
}

static struct buffer *take_full(bool forced) {
    struct buffer **link = &full;
    while (*link != NULL && !forced && !is_done(*link))
        link = &(*link)->next;
    struct buffer *buffer = *link;
    if (buffer != NULL)
        *link = buffer->next;
    return buffer;
}

static void complete_current(void) {
    struct buffer **link = &full;
    while (*link != NULL)
        link = &(*link)->next;
    *link = current;
    current = NULL;
}

static void wait_ms(uint32_t milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)milliseconds * 1000000;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&changed, &lock, &until);
}

static bool may_complete_current(bool forced) {
    return current != NULL && (forced || (current->valid > 0 && is_done(current)));
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct buffer *buffer = take_full(false);
        if (buffer != NULL)
            deliver(buffer);
        else if (full != NULL) /* what it tells has not all happened */
            wait_ms(1);
        else if (period_ms == 0)
            pthread_cond_wait(&changed, &lock);
        else {
            wait_ms(period_ms);
            if (period_ms != 0 && may_complete_current(false))
                complete_current();
        }
    }
    return NULL;
}

static void wake_worker(void) {
    static bool runs;
    pthread_t thread;
    if (!runs && pthread_create(&thread, NULL, work, NULL) == 0) {
        pthread_detach(thread);
        runs = true;
    }
    pthread_cond_broadcast(&changed);
}

/* ---- appending ---- */

/* Asks the client; the lock is held, so its function must not call CUPTI. NULL: it gave none. */
static struct buffer *new_buffer(void) {
    uint8_t *data = NULL;
    size_t bytes = 0, most_records = 0;
    if (request != NULL)
        request(&data, &bytes, &most_records);
    if (data == NULL || bytes == 0)
        return NULL;
    struct buffer *buffer = calloc(1, sizeof *buffer);
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->most_records = most_records;
    outstanding++;
    return buffer;
}

static bool has_room(const struct buffer *buffer, size_t bytes) {
    return buffer->bytes - buffer->valid >= bytes &&
           (buffer->most_records == 0 || buffer->records < buffer->most_records);
}

void queue_append(const void *record, uint64_t done_ns) {
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    size_t bytes = record_bytes(kind);
    pthread_mutex_lock(&lock);
    if (current != NULL && !has_room(current, bytes)) {
        complete_current();
        wake_worker();
    }
    if (current == NULL)
        current = new_buffer();
    if (current == NULL || !has_room(current, bytes)) { /* none, or one that is too small for anything */
        dropped++;
        dropped_ever++;
    } else {
        memcpy(current->data + current->valid, record, bytes);
        current->valid += bytes;
        current->records++;
        if (done_ns > current->done_ns)
            current->done_ns = done_ns;
        emitted[kind < ACTIVITIES ? kind : ACTIVITIES]++;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- what the client calls ---- */

EXPORT int cuptiActivityRegisterCallbacks(request_function new_request, complete_function new_complete) {
    CUPTI_GATE();
    if (new_request == NULL || new_complete == NULL)
        return INVALID_PARAMETER;
    pthread_mutex_lock(&lock);
    request = new_request;
    complete = new_complete;
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag) {
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    cupti_await_fork();
    bool forced = flag & FORCED;
    pthread_mutex_lock(&lock);
    if (complete == NULL) {
        pthread_mutex_unlock(&lock);
        return INVALID_OPERATION;
    }
    if (may_complete_current(forced))
        complete_current();
    struct buffer *buffer;
    while ((buffer = take_full(forced)) != NULL)
        deliver(buffer);
    while (delivering > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT int cuptiActivityFlush(void *context, uint32_t stream, uint32_t flag) {
    (void)context, (void)stream; /* as documented for the real one */
    return cuptiActivityFlushAll(flag);
}

EXPORT int cuptiActivityFlushPeriod(uint32_t milliseconds) {
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    pthread_mutex_lock(&lock);
    period_ms = milliseconds;
    wake_worker();
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream; /* there is one queue */
    if (count == NULL)
        return INVALID_PARAMETER;
    CUPTI_GATE();
    if (cupti_release() < 12050 && cupti_attach() != OK)
        return NO_INITIALIZATION;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return OK;
}

/* What was not flushed is lost, and its buffers stay counted: nobody gives them back to the client. */
void queue_forget(void) {
    pthread_mutex_lock(&lock);
    while (delivering > 0)
        pthread_cond_wait(&changed, &lock);
    if (current != NULL) {
        current->next = full;
        full = current;
        current = NULL;
    }
    for (struct buffer *buffer; (buffer = full) != NULL; free(buffer)) {
        full = buffer->next;
        abandoned += buffer->records;
    }
    request = NULL;
    complete = NULL;
    dropped = 0;
    period_ms = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- for tests ---- */

EXPORT size_t fake_cupti_outstanding_buffers(void) {
    return outstanding;
}

/* Records of a kind that were put into a buffer; of a kind that no version knows with kind 64. */
EXPORT size_t fake_cupti_emitted(uint32_t kind) {
    return kind <= ACTIVITIES ? emitted[kind] : 0;
}

/* Records that found no buffer, also those that the client was told of. */
EXPORT size_t fake_cupti_dropped(void) {
    return dropped_ever;
}

/* Records that cuptiFinalize threw away. */
EXPORT size_t fake_cupti_abandoned_records(void) {
    return abandoned;
}
