/* libcupti: the records of calls, of waiting, events and memory, and of what exists. */
#include <unistd.h>

#include "cupti.h"

enum { OVERHEAD_INSTRUMENTATION = 2 << 16 };
enum { OBJECT_THREAD = 2, OBJECT_STREAM = 5, DEVICE_MEMORY = 3, NONE = 0xffffffff };

static uint32_t correlation_of(const struct gpu_call *call) {
    return call == NULL ? 0 : call->correlation_id;
}

void record_call(const struct gpu_call *call, uint64_t end_ns) {
    struct call_record record = {
        .kind = call->domain == GPU_RUNTIME ? RUNTIME : DRIVER,
        .cbid = call->cbid,
        .start = call->start_ns,
        .end = end_ns,
        .pid = (uint32_t)getpid(),
        .tid = cupti_tid(),
        .correlation = call->correlation_id,
        .result = call->result,
    };
    queue_append(&record, 0);
}

/* ---- waiting, events, memory ---- */

void record_sync(const struct gpu_sync *sync, const struct gpu_call *call) {
    if (!kind_enabled(SYNCHRONIZATION))
        return;
    struct sync_record record = {
        .kind = SYNCHRONIZATION,
        .type = sync->kind,
        .start = sync->start_ns,
        .end = sync->end_ns,
        .correlation = correlation_of(call),
        .context = sync->context == NULL ? NONE : sync->context->id,
        .stream = sync->stream == NULL ? NONE : sync->stream->id,
        .event = sync->event == NULL ? NONE : sync->event->id,
        .event_record = sync->event == NULL ? 0 : sync->event->record_id,
    };
    queue_append(&record, 0);
}

void record_event(const struct gpu_event *event, const struct gpu_call *call) {
    if (!kind_enabled(CUDA_EVENT))
        return;
    struct event_record record = {
        .kind = CUDA_EVENT,
        .correlation = correlation_of(call),
        .context = event->stream->context->id,
        .stream = event->stream->id,
        .event = event->id,
        .device = (uint32_t)event->stream->context->device,
        .device_timestamp = event_times_wanted() ? event->done_ns : 0,
        .event_record = event->record_id,
    };
    queue_append(&record, 0);
}

void record_allocation(const struct gpu_allocation *allocation, const struct gpu_call *call) {
    if (!kind_enabled(MEMORY))
        return;
    const struct gpu_context *context = allocation->context;
    struct memory_record record = {
        .kind = MEMORY,
        .operation = allocation->freed ? 2 : 1,
        .memory_kind = DEVICE_MEMORY,
        .correlation = correlation_of(call),
        .address = allocation->address,
        .bytes = allocation->bytes,
        .timestamp = cupti_now(),
        .pid = (uint32_t)getpid(),
        .device = context == NULL ? 0 : (uint32_t)context->device,
        .context = context == NULL ? 0 : context->id,
        .stream = allocation->stream == NULL ? NONE : allocation->stream->id,
        .async = allocation->async,
    };
    queue_append(&record, 0);
}

/* ---- what exists ---- */

void record_devices(void) {
    for (int device = 0; kind_enabled(DEVICE) && device < CUDA(fake_gpu_device_count)(); device++) {
        struct device_record record = {
            .kind = DEVICE,
            .memory_bytes = CUDA(fake_gpu_device_bytes)(),
            .multiprocessors = 132,
            .compute_major = 9,
            .device = (uint32_t)device,
            .uuid = "fake gpu",
            .name = CUDA(fake_gpu_device_name)(),
            .visible = 1,
        };
        record.uuid[15] = (uint8_t)device;
        queue_append(&record, 0);
    }
}

void record_context(struct gpu_context *context) {
    if (kind_enabled(CONTEXT)) {
        struct context_record record = {
            .kind = CONTEXT,
            .context = context->id,
            .device = (uint32_t)context->device,
            .api = 1, /* CUDA */
            .null_stream = (uint16_t)context->null_stream->id,
            .pid = (uint64_t)getpid(),
        };
        queue_append(&record, 0);
    }
    if (kind_enabled(OVERHEAD)) {
        uint64_t now_ns = cupti_now();
        record_overhead(OVERHEAD_INSTRUMENTATION, now_ns, now_ns + 1009);
    }
}

void record_stream(struct gpu_context *context, const struct gpu_stream *stream, const struct gpu_call *call) {
    if (!kind_enabled(STREAM))
        return;
    struct stream_record record = {
        .kind = STREAM,
        .context = context->id,
        .stream = stream->id,
        .flags = 1,
        .correlation = correlation_of(call),
    };
    queue_append(&record, 0);
}

void record_overhead(uint32_t overhead, uint64_t start_ns, uint64_t end_ns) {
    struct overhead_record record = {
        .kind = OVERHEAD,
        .overhead = overhead,
        .object = OBJECT_THREAD,
        .object_id = {(uint32_t)getpid(), cupti_tid()},
        .start = start_ns,
        .end = end_ns,
    };
    queue_append(&record, 0);
}

/* ---- for tests: records that nothing here causes ---- */

/* Where name is not NULL a name of the stream with this id, otherwise 4,093 bytes that unified memory moved to it. */
EXPORT void fake_cupti_emit(uint32_t stream, const char *name) {
    uint64_t now_ns = cupti_now();
    struct name_record named = {.kind = NAME, .object = OBJECT_STREAM, .object_id = {0, 1, stream}, .name = name};
    struct unified_memory_record moved = {
        .kind = UNIFIED_MEMORY,
        .counter = 1,
        .value = 4093,
        .start = now_ns,
        .end = now_ns + 1009,
        .from = NONE, /* the host */
        .to = 0,
        .stream = stream,
        .pid = (uint32_t)getpid(),
    };
    if (name != NULL && kind_enabled(NAME))
        queue_append(&named, 0);
    else if (name == NULL && kind_enabled(UNIFIED_MEMORY))
        queue_append(&moved, 0);
}
