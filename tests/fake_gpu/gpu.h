/* What the three stand-ins share: the device's objects, a call into CUDA, and the hooks through which libcupti looks on.
 *
 * NVIDIA's libraries have private interfaces for this; here libcuda.so.1 exports a few functions named fake_gpu_*.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    NO_CONTEXT = 201
};
enum { INVALID_HANDLE = 400, NOT_READY = 600, INVALID_DEVICE_FUNCTION = 98 };

enum gpu_domain { GPU_DRIVER = 1, GPU_RUNTIME = 2, GPU_RESOURCE = 3, GPU_SYNCHRONIZE = 4 };

/* CUPTI's numbers for what happens to a resource. */
enum gpu_resource {
    GPU_CONTEXT_CREATED = 1,
    GPU_CONTEXT_DESTROYED = 2,
    GPU_STREAM_CREATED = 3,
    GPU_STREAM_DESTROYED = 4,
    GPU_INITIALIZED = 5,
    GPU_MODULE_LOADED = 6,
    GPU_MODULE_UNLOADED = 7,
};

struct gpu_dim {
    uint32_t x, y, z;
};

struct gpu_context {
    uint32_t id; /* from 1 */
    int device;
    bool primary;
    struct gpu_stream *null_stream;
    struct gpu_stream *streams; /* all of them, linked by next */
    struct gpu_context *next;
};

struct gpu_stream {
    uint32_t id;
    uint32_t clock_epoch; /* free_ns is in the clock of this epoch; a stream of an older one is idle */
    uint64_t free_ns; /* when what is queued will be done */
    struct gpu_context *context;
    struct gpu_stream *next;
};

struct gpu_event {
    uint32_t id;
    uint32_t clock_epoch;
    uint64_t done_ns;
    uint64_t record_id; /* which of all records of events this was the last of; 0: never recorded */
    struct gpu_stream *stream;
};

struct gpu_function {
    const char *name;
    bool spins; /* its first argument is its duration in ns, u64 */
    struct gpu_function *next;
};

enum gpu_work_kind { GPU_KERNEL, GPU_MEMCPY, GPU_PEER_COPY, GPU_MEMSET, GPU_GRAPH };

/* Something that the device does, told when it is queued: its times are known by then. */
struct gpu_work {
    enum gpu_work_kind kind;
    struct gpu_stream *stream;
    uint64_t queued_ns, start_ns, end_ns;
    uint64_t node_id; /* of a graph's node, otherwise 0 */
    uint32_t graph_id; /* of a graph, otherwise 0 */
    const struct gpu_function *function;
    struct gpu_dim grid, block;
    uint32_t shared_bytes;
    uint64_t bytes; /* copied, or set */
    uint32_t value; /* set to */
    uint8_t copy_kind, from_kind, to_kind;
    bool async;
    struct gpu_context *from, *to; /* of a peer copy */
};

enum gpu_sync_kind { GPU_SYNC_EVENT = 1, GPU_SYNC_STREAM_WAITS = 2, GPU_SYNC_STREAM = 3, GPU_SYNC_CONTEXT = 4 };

struct gpu_sync {
    enum gpu_sync_kind kind;
    struct gpu_context *context;
    const struct gpu_stream *stream; /* NULL: none */
    const struct gpu_event *event; /* NULL: none */
    uint64_t start_ns, end_ns;
};

struct gpu_allocation {
    uint64_t address, bytes;
    bool freed, async;
    struct gpu_context *context;
    const struct gpu_stream *stream;
};

/* A call into the driver or the runtime while it lasts, on its caller's stack. */
struct gpu_call {
    enum gpu_domain domain;
    uint32_t cbid;
    const char *name;
    const void *params; /* the arguments as a struct, in order */
    const char *symbol; /* of a launch: the kernel's name */
    const struct gpu_tool *tool;
    struct gpu_call *outer; /* a runtime call around this driver call */
    int result;
    /* For the tool. */
    uint32_t correlation_id;
    uint64_t start_ns;
    uint64_t client_word;
    bool entered;
};

struct gpu_tool {
    void (*enter)(struct gpu_call *);
    void (*leave)(struct gpu_call *);
    void (*work)(const struct gpu_work *, const struct gpu_call *);
    void (*sync)(const struct gpu_sync *, const struct gpu_call *);
    void (*event)(const struct gpu_event *, const struct gpu_call *);
    void (*allocation)(const struct gpu_allocation *, const struct gpu_call *);
    void (*resource)(enum gpu_resource, struct gpu_context *, void *handle, const struct gpu_call *);
};

/* ---- exported by libcuda for the other two ---- */

/* tool NULL: none. clock NULL: CLOCK_REALTIME. */
void fake_gpu_set_tool(const struct gpu_tool *tool);
void fake_gpu_set_clock(uint64_t (*clock)(void));
uint64_t fake_gpu_now(void);
/* Has the clock come to done_ns, or is nobody to wait for it (FAKE_GPU_FAST=1)? */
bool fake_gpu_is_done(uint64_t done_ns);
void fake_gpu_enter(struct gpu_call *call);
int fake_gpu_leave(struct gpu_call *call, int result);
bool fake_gpu_initialized(void);
int fake_gpu_device_count(void);
const char *fake_gpu_device_name(void);
uint64_t fake_gpu_device_bytes(void);
struct gpu_context *fake_gpu_current(void);
/* Calls visit for every context that exists. */
void fake_gpu_contexts(void (*visit)(struct gpu_context *));
bool fake_gpu_is_device_address(uint64_t address);

/* ---- the first and the last line of a function of CUDA ---- */

#define GPU_FIELDS_0() char none;
#define GPU_FIELDS_1(a) __typeof__(a) p0;
#define GPU_FIELDS_2(a, b) GPU_FIELDS_1(a) __typeof__(b) p1;
#define GPU_FIELDS_3(a, b, c) GPU_FIELDS_2(a, b) __typeof__(c) p2;
#define GPU_FIELDS_4(a, b, c, d) GPU_FIELDS_3(a, b, c) __typeof__(d) p3;
#define GPU_FIELDS_5(a, b, c, d, e) GPU_FIELDS_4(a, b, c, d) __typeof__(e) p4;
#define GPU_FIELDS_6(a, b, c, d, e, f) GPU_FIELDS_5(a, b, c, d, e) __typeof__(f) p5;
#define GPU_FIELDS_11(a, b, c, d, e, f, g, h, i, j, k) \
    GPU_FIELDS_6(a, b, c, d, e, f) __typeof__(g) p6;   \
    __typeof__(h) p7;                                  \
    __typeof__(i) p8;                                  \
    __typeof__(j) p9;                                  \
    __typeof__(k) p10;
#define GPU_PICK(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, name, ...) name
#define GPU_FIELDS(...)                                                                                    \
    GPU_PICK(_0 __VA_OPT__(, ) __VA_ARGS__, GPU_FIELDS_11, bad, bad, bad, bad, GPU_FIELDS_6, GPU_FIELDS_5, \
             GPU_FIELDS_4, GPU_FIELDS_3, GPU_FIELDS_2, GPU_FIELDS_1, GPU_FIELDS_0)(__VA_ARGS__)

/* Declares what a function says of its call; symbol: the kernel's name, or NULL. */
#define GPU_CALL(domain_, function, symbol_, ...) \
    struct {                                      \
        GPU_FIELDS(__VA_ARGS__)                   \
    } params = {__VA_ARGS__};                     \
    struct gpu_call call = {                      \
        .domain = domain_, .cbid = CBID_##function, .name = #function, .params = &params, .symbol = symbol_}

#endif
