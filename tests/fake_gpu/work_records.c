/* libcupti: the records of what the device does. */
#include "cupti.h"

enum { ASYNC = 1, SECOND_NS = 1000000000 };

/* FAKE_CUPTI_ODDITIES: what a kernel's record should not look like, and may; word:N is every Nth of them. */
static void make_odd(struct kernel_record *record) {
    static const char *const words[] = {"zero_times", "out_of_order", "negative",
                                        "null_name",  "bad_utf8",     "unknown_kind"};
    enum { ZERO_TIMES, OUT_OF_ORDER, NEGATIVE, NULL_NAME, BAD_UTF8, UNKNOWN, WORDS };
    static _Atomic unsigned every[WORDS], kernels;
    static _Atomic bool known;
    if (!known) {
        for (int i = 0; i < WORDS; i++)
            every[i] = cupti_switch("FAKE_CUPTI_ODDITIES", words[i]);
        known = true;
    }
    unsigned number = ++kernels;
    bool odd[WORDS];
    for (int i = 0; i < WORDS; i++)
        odd[i] = every[i] != 0 && number % every[i] == 0;
    if (odd[OUT_OF_ORDER]) {
        record->start -= SECOND_NS;
        record->end -= SECOND_NS;
    }
    if (odd[NEGATIVE])
        record->end = record->start - 1;
    if (odd[ZERO_TIMES])
        record->start = record->end = record->completed = 0;
    if (odd[NULL_NAME])
        record->name = NULL;
    else if (odd[BAD_UTF8])
        record->name = "bad\xff\xc3(name";
    if (odd[UNKNOWN]) {
        struct {
            uint32_t kind, words[15];
        } unknown = {.kind = UNKNOWN_ACTIVITY, .words = {0xffffffff, 0xffffffff}};
        queue_append(&unknown, 0);
    }
}

static void record_kernel(const struct gpu_work *work, uint32_t correlation) {
    static _Atomic int64_t grids;
    struct kernel_record record = {
        .kind = kind_enabled(CONCURRENT_KERNEL) ? CONCURRENT_KERNEL : KERNEL,
        .registers = 32,
        .start = work->start_ns,
        .end = work->end_ns,
        .completed = work->end_ns,
        .device = (uint32_t)work->stream->context->device,
        .context = work->stream->context->id,
        .stream = work->stream->id,
        .grid = {(int32_t)work->grid.x, (int32_t)work->grid.y, (int32_t)work->grid.z},
        .block = {(int32_t)work->block.x, (int32_t)work->block.y, (int32_t)work->block.z},
        .dynamic_shared = (int32_t)work->shared_bytes,
        .correlation = correlation,
        .grid_id = ++grids,
        .name = work->function->name,
        .queued = latencies_wanted() ? work->queued_ns : 0,
        .submitted = latencies_wanted() ? work->queued_ns : 0,
        .graph_node = work->node_id,
        .graph = work->graph_id,
        .channel = 1,
        .channel_kind = 1,
        .clusters_possible = 8,
        .source_graph = work->graph_id,
        .source_node = work->node_id,
    };
    make_odd(&record);
    queue_append(&record, work->end_ns);
}

static void record_copy(const struct gpu_work *work, uint32_t correlation) {
    struct copy_record record = {
        .kind = MEMCPY,
        .copy_kind = work->copy_kind,
        .from_kind = work->from_kind,
        .to_kind = work->to_kind,
        .flags = work->async ? ASYNC : 0,
        .bytes = work->bytes,
        .start = work->start_ns,
        .end = work->end_ns,
        .device = (uint32_t)work->stream->context->device,
        .context = work->stream->context->id,
        .stream = work->stream->id,
        .correlation = correlation,
        .channel = 12,
        .channel_kind = 2,
        .copies = 1,
    };
    queue_append(&record, work->end_ns);
}

static void record_peer_copy(const struct gpu_work *work, uint32_t correlation) {
    struct peer_copy_record record = {
        .kind = PEER_COPY,
        .copy_kind = work->copy_kind,
        .from_kind = work->from_kind,
        .to_kind = work->to_kind,
        .flags = ASYNC,
        .bytes = work->bytes,
        .start = work->start_ns,
        .end = work->end_ns,
        .device = (uint32_t)work->stream->context->device,
        .context = work->stream->context->id,
        .stream = work->stream->id,
        .from_device = (uint32_t)work->from->device,
        .from_context = work->from->id,
        .to_device = (uint32_t)work->to->device,
        .to_context = work->to->id,
        .correlation = correlation,
        .channel = 12,
        .channel_kind = 2,
    };
    queue_append(&record, work->end_ns);
}

static void record_memset(const struct gpu_work *work, uint32_t correlation) {
    struct memset_record record = {
        .kind = MEMSET,
        .value = work->value,
        .bytes = work->bytes,
        .start = work->start_ns,
        .end = work->end_ns,
        .device = (uint32_t)work->stream->context->device,
        .context = work->stream->context->id,
        .stream = work->stream->id,
        .correlation = correlation,
        .flags = work->async ? ASYNC : 0,
        .memory_kind = work->to_kind,
        .channel = 1,
        .channel_kind = 1,
    };
    queue_append(&record, work->end_ns);
}

static void record_graph(const struct gpu_work *work, uint32_t correlation) {
    struct graph_record record = {
        .kind = GRAPH_TRACE,
        .correlation = correlation,
        .start = work->start_ns,
        .end = work->end_ns,
        .device = (uint32_t)work->stream->context->device,
        .graph = work->graph_id,
        .context = work->stream->context->id,
        .stream = work->stream->id,
        .end_device = (uint32_t)work->stream->context->device,
        .end_context = work->stream->context->id,
    };
    queue_append(&record, work->end_ns);
}

void record_work(const struct gpu_work *work, const struct gpu_call *call) {
    uint32_t correlation = call == NULL ? 0 : call->correlation_id;
    bool kernels = kind_enabled(KERNEL) || kind_enabled(CONCURRENT_KERNEL);
    /* Where graphs are traced whole, their kernels are not traced. */
    if (work->kind == GPU_KERNEL && kernels && !(work->graph_id != 0 && kind_enabled(GRAPH_TRACE)))
        record_kernel(work, correlation);
    else if (work->kind == GPU_MEMCPY && kind_enabled(MEMCPY))
        record_copy(work, correlation);
    else if (work->kind == GPU_PEER_COPY && kind_enabled(PEER_COPY))
        record_peer_copy(work, correlation);
    else if (work->kind == GPU_MEMSET && kind_enabled(MEMSET))
        record_memset(work, correlation);
    else if (work->kind == GPU_GRAPH && kind_enabled(GRAPH_TRACE))
        record_graph(work, correlation);
}
