/* The device's contexts, streams and events, and when their work is done.
 *
 * Time is virtual: a stream does its work in order, each piece begins when it was queued, when the piece before it is
 * done and when the events that its stream waits for are done, whichever is last, and lasts as long as its kind says.
 * All streams run side by side. The null stream is one stream more: it does not wait for the others.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "device.h"

/* CUPTI numbers the null stream of a process' first context 7, and its other streams from 13. */
enum { FIRST_NULL_STREAM = 7, FIRST_STREAM = 13 };

#define HOUR_NS 3600000000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_context *contexts;
static uint32_t context_count, stream_count, event_record_count, clock_epoch;
static _Thread_local struct gpu_context *current;

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

EXPORT struct gpu_context *fake_gpu_current(void) {
    return current;
}

void gpu_set_current(struct gpu_context *context) {
    current = context;
}

/* At once, so that no work has times of both. */
void gpu_change_clock(_Atomic(gpu_clock) *clock, gpu_clock new_clock) {
    pthread_mutex_lock(&lock);
    *clock = new_clock;
    clock_epoch++;
    pthread_mutex_unlock(&lock);
}

static struct gpu_stream *stream_new(struct gpu_context *context, uint32_t id) {
    struct gpu_stream *stream = calloc(1, sizeof *stream);
    stream->id = id;
    stream->context = context;
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

struct gpu_context *gpu_context_new(int device, bool primary) {
    struct gpu_context *context = calloc(1, sizeof *context);
    pthread_mutex_lock(&lock);
    context->id = ++context_count;
    context->device = device;
    context->primary = primary;
    uint32_t null_stream = context->id == 1 ? FIRST_NULL_STREAM : FIRST_STREAM + stream_count++;
    context->null_stream = stream_new(context, null_stream);
    context->next = contexts;
    contexts = context;
    pthread_mutex_unlock(&lock);
    GPU_TELL(resource, GPU_CONTEXT_CREATED, context, NULL);
    return context;
}

void gpu_context_free(struct gpu_context *context) {
    GPU_TELL(resource, GPU_CONTEXT_DESTROYED, context, NULL);
    pthread_mutex_lock(&lock);
    struct gpu_context **link = &contexts;
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    pthread_mutex_unlock(&lock);
    for (struct gpu_stream *stream = context->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        free(stream);
    }
    if (current == context)
        current = NULL;
    free(context);
}

struct gpu_context *gpu_primary_context(int device) {
    pthread_mutex_lock(&lock);
    struct gpu_context *context = contexts;
    while (context != NULL && !(context->primary && context->device == device))
        context = context->next;
    pthread_mutex_unlock(&lock);
    return context;
}

EXPORT void fake_gpu_contexts(void (*visit)(struct gpu_context *)) {
    pthread_mutex_lock(&lock);
    for (struct gpu_context *context = contexts; context != NULL; context = context->next)
        visit(context);
    pthread_mutex_unlock(&lock);
}

struct gpu_stream *gpu_stream_new(struct gpu_context *context) {
    pthread_mutex_lock(&lock);
    struct gpu_stream *stream = stream_new(context, FIRST_STREAM + stream_count++);
    pthread_mutex_unlock(&lock);
    GPU_TELL(resource, GPU_STREAM_CREATED, context, stream);
    return stream;
}

void gpu_stream_free(struct gpu_stream *stream) {
    GPU_TELL(resource, GPU_STREAM_DESTROYED, stream->context, stream);
    pthread_mutex_lock(&lock);
    struct gpu_stream **link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&lock);
    free(stream);
}

struct gpu_stream *gpu_stream_of(struct gpu_stream *handle) {
    if ((uintptr_t)handle > 2) /* 1 and 2: the legacy and the per-thread default stream */
        return handle;
    return current == NULL ? NULL : current->null_stream;
}

static uint64_t free_ns(const struct gpu_stream *stream) {
    return stream->clock_epoch == clock_epoch ? stream->free_ns : 0;
}

static void occupy(struct gpu_stream *stream, uint64_t until_ns) {
    stream->free_ns = until_ns;
    stream->clock_epoch = clock_epoch;
}

void gpu_stream_queue(struct gpu_work *work, uint64_t duration_ns) {
    pthread_mutex_lock(&lock);
    work->queued_ns = fake_gpu_now();
    work->start_ns = later(work->queued_ns, free_ns(work->stream));
    work->end_ns = work->start_ns + duration_ns;
    occupy(work->stream, work->end_ns);
    pthread_mutex_unlock(&lock);
}

uint64_t gpu_stream_done_ns(const struct gpu_stream *stream) {
    pthread_mutex_lock(&lock);
    uint64_t done_ns = free_ns(stream);
    pthread_mutex_unlock(&lock);
    return done_ns;
}

uint64_t gpu_context_done_ns(const struct gpu_context *context) {
    uint64_t done_ns = 0;
    pthread_mutex_lock(&lock);
    for (const struct gpu_stream *stream = context->streams; stream != NULL; stream = stream->next)
        done_ns = later(done_ns, free_ns(stream));
    pthread_mutex_unlock(&lock);
    return done_ns;
}

void gpu_event_record(struct gpu_event *event, struct gpu_stream *stream) {
    pthread_mutex_lock(&lock);
    event->done_ns = later(fake_gpu_now(), free_ns(stream));
    event->clock_epoch = clock_epoch;
    event->record_id = ++event_record_count;
    event->stream = stream;
    pthread_mutex_unlock(&lock);
}

uint64_t gpu_event_done_ns(const struct gpu_event *event) {
    pthread_mutex_lock(&lock);
    uint64_t done_ns = event->clock_epoch == clock_epoch ? event->done_ns : 0;
    pthread_mutex_unlock(&lock);
    return done_ns;
}

void gpu_stream_wait(struct gpu_stream *stream, const struct gpu_event *event) {
    uint64_t done_ns = gpu_event_done_ns(event);
    pthread_mutex_lock(&lock);
    occupy(stream, later(done_ns, free_ns(stream)));
    pthread_mutex_unlock(&lock);
}

static bool is_fast(void) {
    static int fast = -1;
    if (fast < 0) {
        const char *text = getenv("FAKE_GPU_FAST");
        fast = text != NULL && *text == '1';
    }
    return fast;
}

EXPORT bool fake_gpu_is_done(uint64_t done_ns) {
    return is_fast() || fake_gpu_now() >= done_ns;
}

/* By a clock of its own: that of done_ns may change meanwhile. */
void gpu_wait_until(uint64_t done_ns) {
    uint64_t now_ns = fake_gpu_now();
    if (is_fast() || now_ns >= done_ns || done_ns - now_ns > HOUR_NS) /* it has changed already */
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (done_ns - now_ns);
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
