/* libcuda: streams, events, and waiting for them. */
#include <stdlib.h>

#include "device.h"

static void wait_and_tell(enum gpu_sync_kind kind, struct gpu_context *context, const struct gpu_stream *stream,
                          const struct gpu_event *event, uint64_t done_ns) {
    struct gpu_sync sync = {kind, context, stream, event, fake_gpu_now(), 0};
    if (kind != GPU_SYNC_STREAM_WAITS)
        gpu_wait_until(done_ns);
    sync.end_ns = fake_gpu_now();
    GPU_TELL(sync, &sync);
}

EXPORT int cuCtxSynchronize(void) {
    DRIVER_ENTER(cuCtxSynchronize);
    struct gpu_context *context = fake_gpu_current();
    if (context == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    wait_and_tell(GPU_SYNC_CONTEXT, context, NULL, NULL, gpu_context_done_ns(context));
    DRIVER_LEAVE(SUCCESS);
}

/* ---- streams ---- */

EXPORT int cuStreamCreate(struct gpu_stream **stream, unsigned flags) {
    DRIVER_ENTER(cuStreamCreate, stream, flags);
    struct gpu_context *context = fake_gpu_current();
    if (context == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    *stream = gpu_stream_new(context);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuStreamDestroy_v2(struct gpu_stream *stream) {
    DRIVER_ENTER(cuStreamDestroy_v2, stream);
    bool own = (uintptr_t)stream > 2;
    if (own)
        gpu_stream_free(stream);
    DRIVER_LEAVE(own ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuStreamQuery(struct gpu_stream *handle) {
    DRIVER_ENTER(cuStreamQuery, handle);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    DRIVER_LEAVE(fake_gpu_is_done(gpu_stream_done_ns(stream)) ? SUCCESS : NOT_READY);
}

EXPORT int cuStreamSynchronize(struct gpu_stream *handle) {
    DRIVER_ENTER(cuStreamSynchronize, handle);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    wait_and_tell(GPU_SYNC_STREAM, stream->context, stream, NULL, gpu_stream_done_ns(stream));
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuStreamWaitEvent(struct gpu_stream *handle, struct gpu_event *event, unsigned flags) {
    DRIVER_ENTER(cuStreamWaitEvent, handle, event, flags);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL || event == NULL)
        DRIVER_LEAVE(INVALID_HANDLE);
    gpu_stream_wait(stream, event);
    wait_and_tell(GPU_SYNC_STREAM_WAITS, stream->context, stream, event, 0);
    DRIVER_LEAVE(SUCCESS);
}

/* ---- events ---- */

EXPORT int cuEventCreate(struct gpu_event **event, unsigned flags) {
    static _Atomic uint32_t count;
    DRIVER_ENTER(cuEventCreate, event, flags);
    *event = calloc(1, sizeof **event);
    (*event)->id = ++count;
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuEventDestroy_v2(struct gpu_event *event) {
    DRIVER_ENTER(cuEventDestroy_v2, event);
    free(event);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuEventRecord(struct gpu_event *event, struct gpu_stream *handle) {
    DRIVER_ENTER(cuEventRecord, event, handle);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    gpu_event_record(event, stream);
    GPU_TELL(event, event);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuEventQuery(struct gpu_event *event) {
    DRIVER_ENTER(cuEventQuery, event);
    DRIVER_LEAVE(fake_gpu_is_done(gpu_event_done_ns(event)) ? SUCCESS : NOT_READY);
}

EXPORT int cuEventSynchronize(struct gpu_event *event) {
    DRIVER_ENTER(cuEventSynchronize, event);
    struct gpu_context *context = event->stream != NULL ? event->stream->context : fake_gpu_current();
    wait_and_tell(GPU_SYNC_EVENT, context, event->stream, event, gpu_event_done_ns(event));
    DRIVER_LEAVE(SUCCESS);
}

static int elapsed(float *milliseconds, const struct gpu_event *from, const struct gpu_event *to) {
    if (from->record_id == 0 || to->record_id == 0)
        return INVALID_HANDLE;
    *milliseconds = (float)((double)((int64_t)gpu_event_done_ns(to) - (int64_t)gpu_event_done_ns(from)) / 1e6);
    return SUCCESS;
}

EXPORT int cuEventElapsedTime(float *milliseconds, struct gpu_event *from, struct gpu_event *to) {
    DRIVER_ENTER(cuEventElapsedTime, milliseconds, from, to);
    DRIVER_LEAVE(elapsed(milliseconds, from, to));
}

EXPORT int cuEventElapsedTime_v2(float *milliseconds, struct gpu_event *from, struct gpu_event *to) {
    DRIVER_ENTER(cuEventElapsedTime_v2, milliseconds, from, to);
    DRIVER_LEAVE(elapsed(milliseconds, from, to));
}
