/* libcupti: which records the client wants, and its attributes, clock and external ids. */
#include <stdatomic.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cupti.h"

enum { CALLBACKS = 1024, ATTRIBUTES = 25, EXTERNAL_KINDS = 6, EXTERNAL_DEPTH = 64 };

static _Atomic bool enabled[ACTIVITIES];
static _Atomic bool recorded[2][CALLBACKS]; /* calls of the driver, of the runtime */
static _Atomic bool ever_enabled;           /* a kind, since the start or the last cuptiFinalize */
static _Atomic int tid_type;
static _Atomic bool latencies, event_times;
static size_t attributes[ATTRIBUTES];

static _Thread_local struct {
    unsigned depth;
    uint64_t ids[EXTERNAL_DEPTH];
} external[EXTERNAL_KINDS];

bool kind_enabled(uint32_t kind) {
    return atomic_load_explicit(&enabled[kind], memory_order_relaxed);
}

bool call_recorded(const struct gpu_call *call) {
    return atomic_load_explicit(&recorded[call->domain - GPU_DRIVER][call->cbid], memory_order_relaxed);
}

static void record_calls(int which, bool enable) {
    for (int cbid = 0; cbid < CALLBACKS; cbid++)
        recorded[which][cbid] = enable;
}

static enum cupti_result set_kind(uint32_t kind, bool enable) {
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    /* From 12.8 on there are kinds beyond 52. What this one has no records of it accepts, and never records. */
    if (kind == 0 || kind > (cupti_release() >= 13020 ? 59u : cupti_release() >= 12080 ? 55u : 52u))
        return INVALID_KIND;
    enabled[kind] = enable;
    if (kind == DRIVER || kind == RUNTIME)
        record_calls(kind == RUNTIME, enable);
    return OK;
}

EXPORT int cuptiActivityEnable(uint32_t kind) {
    enum cupti_result result = set_kind(kind, true);
    if (result != OK)
        return result;
    ever_enabled = true;
    if (kind == DEVICE && CUDA(fake_gpu_initialized)())
        record_devices();
    if (kind == CONTEXT)
        CUDA(fake_gpu_contexts)(record_context);
    return OK;
}

EXPORT int cuptiActivityDisable(uint32_t kind) {
    return set_kind(kind, false);
}

static int record_one(int which, uint32_t cbid, uint8_t enable) {
    if (cbid >= CALLBACKS)
        return INVALID_PARAMETER;
    enum cupti_result result = cupti_attach();
    if (result == OK)
        recorded[which][cbid] = enable != 0;
    ever_enabled |= enable != 0;
    return result;
}

EXPORT int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable) {
    return record_one(0, cbid, enable);
}

EXPORT int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable) {
    return record_one(1, cbid, enable);
}

/* ---- the clock, thread ids, attributes ---- */

/* NVIDIA asks that it be called before a kind is enabled, and names no error for who does not; this one refuses, so that
 * a client which has the order wrong is found out.
 */
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) {
    CUPTI_GATE();
    if (clock == NULL)
        return INVALID_PARAMETER;
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    if (cupti_switch("FAKE_CUPTI", "no_clock") != 0)
        return UNSUPPORTED;
    if (ever_enabled)
        return INVALID_OPERATION;
    CUDA(fake_gpu_set_clock)(clock);
    return OK;
}

/* 0, the default: pthread_self(), cut to 32 bits. 1: the kernel's. */
EXPORT int cuptiSetThreadIdType(int type) {
    enum cupti_result result = cupti_attach();
    if (result == OK && type != 0 && type != 1)
        return UNSUPPORTED;
    if (result == OK)
        tid_type = type;
    return result;
}

EXPORT int cuptiGetThreadIdType(int *type) {
    if (type == NULL)
        return INVALID_PARAMETER;
    *type = tid_type;
    return OK;
}

static int set_option(_Atomic bool *option, uint8_t enable) {
    enum cupti_result result = cupti_attach();
    if (result == OK)
        *option = enable != 0;
    return result;
}

/* Kernels' records say when they were queued and submitted. */
EXPORT int cuptiActivityEnableLatencyTimestamps(uint8_t enable) {
    return set_option(&latencies, enable);
}

/* Records of events say when the device came to them. */
EXPORT int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable) {
    return set_option(&event_times, enable);
}

bool latencies_wanted(void) {
    return latencies;
}

bool event_times_wanted(void) {
    return event_times;
}

uint32_t cupti_tid(void) {
    return tid_type == 1 ? (uint32_t)gettid() : (uint32_t)(uintptr_t)pthread_self();
}

static size_t attribute_bytes(uint32_t attribute) {
    return attribute == 5 || attribute == 9 ? 1 : sizeof(size_t); /* these two are switches */
}

static int access_attribute(uint32_t attribute, size_t *bytes, const void *value) {
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    if (attribute >= ATTRIBUTES || bytes == NULL || value == NULL)
        return INVALID_PARAMETER;
    return *bytes < attribute_bytes(attribute) ? 10 : OK; /* CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT */
}

EXPORT int cuptiActivitySetAttribute(uint32_t attribute, size_t *bytes, void *value) {
    int result = access_attribute(attribute, bytes, value);
    if (result == OK)
        memcpy(&attributes[attribute], value, attribute_bytes(attribute));
    return result;
}

EXPORT int cuptiActivityGetAttribute(uint32_t attribute, size_t *bytes, void *value) {
    int result = access_attribute(attribute, bytes, value);
    if (result == OK)
        memcpy(value, &attributes[attribute], *bytes = attribute_bytes(attribute));
    return result;
}

/* ---- external ids ---- */

EXPORT int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
    CUPTI_GATE();
    if (kind == 0 || kind >= EXTERNAL_KINDS || external[kind].depth == EXTERNAL_DEPTH)
        return INVALID_PARAMETER;
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    external[kind].ids[external[kind].depth++] = id;
    return OK;
}

EXPORT int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last) {
    CUPTI_GATE();
    if (kind == 0 || kind >= EXTERNAL_KINDS)
        return INVALID_PARAMETER;
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    if (external[kind].depth == 0)
        return QUEUE_EMPTY;
    external[kind].depth--;
    if (last != NULL)
        *last = external[kind].ids[external[kind].depth];
    return OK;
}

void record_external(const struct gpu_call *call) {
    if (!kind_enabled(EXTERNAL_CORRELATION))
        return;
    for (uint32_t kind = 1; kind < EXTERNAL_KINDS; kind++) {
        if (external[kind].depth == 0)
            continue;
        struct external_record record = {
            .kind = EXTERNAL_CORRELATION,
            .external_kind = kind,
            .external_id = external[kind].ids[external[kind].depth - 1],
            .correlation = call->correlation_id,
        };
        queue_append(&record, 0);
    }
}

void kinds_forget(void) {
    for (int kind = 0; kind < ACTIVITIES; kind++)
        enabled[kind] = false;
    record_calls(0, false);
    record_calls(1, false);
    ever_enabled = false;
    tid_type = 0;
    latencies = event_times = false;
}

/* Bit k: kind k. */
EXPORT uint64_t fake_cupti_enabled_kinds(void) {
    uint64_t kinds = 0;
    for (int kind = 0; kind < ACTIVITIES; kind++)
        kinds |= (uint64_t)enabled[kind] << kind;
    return kinds;
}

EXPORT size_t fake_cupti_recorded_calls(void) {
    size_t count = 0;
    for (int which = 0; which < 2; which++)
        for (int cbid = 0; cbid < CALLBACKS; cbid++)
            count += recorded[which][cbid];
    return count;
}
