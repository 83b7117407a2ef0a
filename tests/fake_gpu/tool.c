/* Who looks on at calls, by which clock, and which call a thread is in. */
#include <stdatomic.h>
#include <time.h>

#include "device.h"

static _Atomic(const struct gpu_tool *) tool;
static _Atomic(gpu_clock) clock_ns;
static _Thread_local struct gpu_call *current;

EXPORT void fake_gpu_set_tool(const struct gpu_tool *new_tool) {
    atomic_store(&tool, new_tool);
}

EXPORT void fake_gpu_set_clock(uint64_t (*new_clock)(void)) {
    gpu_change_clock(&clock_ns, new_clock);
}

EXPORT uint64_t fake_gpu_now(void) {
    gpu_clock clock = atomic_load(&clock_ns);
    if (clock != NULL)
        return clock();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const struct gpu_tool *gpu_tool(void) {
    return atomic_load(&tool);
}

const struct gpu_call *gpu_current_call(void) {
    return current;
}

EXPORT void fake_gpu_enter(struct gpu_call *call) {
    call->tool = atomic_load(&tool);
    if (call->tool == NULL)
        return;
    call->outer = current;
    current = call;
    call->tool->enter(call);
}

EXPORT int fake_gpu_leave(struct gpu_call *call, int result) {
    call->result = result;
    if (call->tool == NULL)
        return result;
    /* A tool that went away meanwhile is told nothing more. */
    if (call->tool == atomic_load(&tool))
        call->tool->leave(call);
    current = call->outer;
    return result;
}
