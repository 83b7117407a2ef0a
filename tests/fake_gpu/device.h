/* Inside libcuda: contexts, streams, memory and their virtual time. */
#ifndef FAKE_GPU_DEVICE_H
#define FAKE_GPU_DEVICE_H

#include "driver.h"

struct gpu_context *gpu_context_new(int device, bool primary);
void gpu_context_free(struct gpu_context *context);
struct gpu_context *gpu_primary_context(int device);
void gpu_set_current(struct gpu_context *context);

struct gpu_stream *gpu_stream_new(struct gpu_context *context);
void gpu_stream_free(struct gpu_stream *stream);
/* handle as a job passes it: NULL and 1 are the null stream of the current context. */
struct gpu_stream *gpu_stream_of(struct gpu_stream *handle);

/* Queues work of a duration: fills in its times. */
void gpu_stream_queue(struct gpu_work *work, uint64_t duration_ns);
/* When what is queued now will be done; 0: it is idle. */
uint64_t gpu_stream_done_ns(const struct gpu_stream *stream);
uint64_t gpu_context_done_ns(const struct gpu_context *context);
void gpu_event_record(struct gpu_event *event, struct gpu_stream *stream);
uint64_t gpu_event_done_ns(const struct gpu_event *event);
void gpu_stream_wait(struct gpu_stream *stream, const struct gpu_event *event);
/* Returns when the clock says done_ns, or at once with FAKE_GPU_FAST=1. */
void gpu_wait_until(uint64_t done_ns);

uint64_t gpu_memory_new(uint64_t bytes);
/* Returns its bytes, 0 where address was not allocated. */
uint64_t gpu_memory_free(uint64_t address);

/* Times of an older clock count as past from here on. */
typedef uint64_t (*gpu_clock)(void);
void gpu_change_clock(_Atomic(gpu_clock) *clock, gpu_clock new_clock);

/* What the tool is told; nothing without one. */
const struct gpu_call *gpu_current_call(void);
const struct gpu_tool *gpu_tool(void);
#define GPU_TELL(hook, ...)                               \
    do {                                                  \
        const struct gpu_tool *tool_ = gpu_tool();        \
        if (tool_ != NULL)                                \
            tool_->hook(__VA_ARGS__, gpu_current_call()); \
    } while (0)

#define LAUNCH_ENTER(function, symbol, ...)              \
    GPU_CALL(GPU_DRIVER, function, symbol, __VA_ARGS__); \
    fake_gpu_enter(&call)
#define DRIVER_ENTER(function, ...)                                  \
    GPU_CALL(GPU_DRIVER, function, NULL __VA_OPT__(, ) __VA_ARGS__); \
    fake_gpu_enter(&call)
#define DRIVER_LEAVE(result) return fake_gpu_leave(&call, result)

#endif
