/* Inside libcupti: what it knows of its client, and the queue of records. */
#ifndef FAKE_GPU_CUPTI_H
#define FAKE_GPU_CUPTI_H

#include "gpu.h"
#include "records.h"

enum cupti_result {
    OK = 0,
    INVALID_PARAMETER = 1,
    INVALID_OPERATION = 7,
    MAX_LIMIT_REACHED = 12,
    NO_INITIALIZATION = 15,
    QUEUE_EMPTY = 18,
    INVALID_KIND = 21,
    UNSUPPORTED = 27,
    MULTIPLE_SUBSCRIBERS = 39,
    UNKNOWN_ERROR = 999,
};

/* Finds libcuda and looks on at it. Every function of CUPTI that needs the driver begins with it. */
enum cupti_result cupti_attach(void);
/* Some do not need it, but from 13.2 on: without a driver these have an answer of their own only before. */
enum cupti_result cupti_gate(void);
#define CUPTI_GATE()              \
    do {                          \
        if (cupti_gate() != OK)   \
            return UNKNOWN_ERROR; \
    } while (0)
/* Where the environment wants it: waits, once, for a thread that forks. */
void cupti_await_fork(void);
uint64_t cupti_now(void);
/* A private function of libcuda, after cupti_attach. */
#define CUDA(function)                                        \
    ({                                                        \
        static __typeof__(&function) found_;                  \
        if (found_ == NULL)                                   \
            *(void **)&found_ = cupti_cuda_symbol(#function); \
        found_;                                               \
    })
void *cupti_cuda_symbol(const char *name);
/* One word of the environment variable is "word", or "word:N"; returns N, 1 without, 0: not there. */
unsigned cupti_switch(const char *variable, const char *word);

/* ---- callbacks ---- */

void callback_enter(struct gpu_call *call);
void callback_leave(struct gpu_call *call);
void callback_resource(enum gpu_resource what, struct gpu_context *context, void *handle);
void callback_sync(const struct gpu_sync *sync);
/* The subscriber, and all that it enabled. */
void callbacks_forget(void);
/* And the correlation ids: they begin again. */
void callbacks_finalize(void);

/* ---- which records are wanted ---- */

bool kind_enabled(uint32_t kind);
bool call_recorded(const struct gpu_call *call);
uint32_t cupti_tid(void);
bool latencies_wanted(void);
bool event_times_wanted(void);
void kinds_forget(void);

/* ---- the producers of records ---- */

void record_external(const struct gpu_call *call);
void record_call(const struct gpu_call *call, uint64_t end_ns);
void record_work(const struct gpu_work *work, const struct gpu_call *call);
void record_sync(const struct gpu_sync *sync, const struct gpu_call *call);
void record_event(const struct gpu_event *event, const struct gpu_call *call);
void record_allocation(const struct gpu_allocation *allocation, const struct gpu_call *call);
void record_context(struct gpu_context *context);
void record_stream(struct gpu_context *context, const struct gpu_stream *stream, const struct gpu_call *call);
void record_devices(void);
void record_overhead(uint32_t overhead, uint64_t start_ns, uint64_t end_ns);

/* ---- the queue ---- */

/* record begins with its kind. done_ns: when what it tells will have happened, 0: it has. */
void queue_append(const void *record, uint64_t done_ns);
void queue_forget(void);

#endif
