/* The layouts of CUPTI's activity records, each with all the fields that it has grown since.
 *
 * A version of CUPTI writes the first record_bytes() of them; offsets and sizes were compared with those of the public
 * packages 11.8 to 13.5 (test_fake_gpu.py does it again where they are installed).
 */
#ifndef FAKE_GPU_RECORDS_H
#define FAKE_GPU_RECORDS_H

#include <stddef.h>
#include <stdint.h>

enum activity {
    MEMCPY = 1,
    MEMSET = 2,
    KERNEL = 3,
    DRIVER = 4,
    RUNTIME = 5,
    DEVICE = 8,
    CONTEXT = 9,
    CONCURRENT_KERNEL = 10,
    NAME = 11,
    OVERHEAD = 17,
    PEER_COPY = 22,
    UNIFIED_MEMORY = 25,
    CUDA_EVENT = 36,
    STREAM = 37,
    SYNCHRONIZATION = 38,
    EXTERNAL_CORRELATION = 39,
    INTERNAL_LAUNCH = 48, /* nothing here causes any */
    MEMORY = 49,
    GRAPH_TRACE = 51,
    ACTIVITIES = 64,
    UNKNOWN_ACTIVITY = 0x4444, /* no version has it; 64 bytes long here */
};

#define RECORD __attribute__((packed, aligned(8)))

struct RECORD kernel_record {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t global_cache_requested, global_cache_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t static_shared, dynamic_shared;
    uint32_t local_per_thread, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node; /* 5 */
    uint32_t shared_limit, graph;
    void *access_policy;          /* 6 */
    uint32_t channel, channel_kind; /* 7 */
    uint32_t cluster[3], cluster_policy; /* 8 */
    uint64_t local_total_wide;
    uint32_t clusters_possible, clusters_active; /* 9 */
    uint8_t from_device, padding2[7];            /* 10 */
    int32_t priority;                            /* 11 */
    uint32_t padding3;
    uint32_t execution_model, padding4; /* 12 */
    uint32_t source_graph, padding5;    /* 13 */
    uint64_t source_node;
};

struct RECORD copy_record {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint32_t runtime_correlation, padding;
    void *reserved;
    uint64_t graph_node;             /* 3 */
    uint32_t graph, channel;         /* 4 */
    uint32_t channel_kind;           /* 5 */
    uint8_t from_device, padding2[3];
    uint64_t copies;                 /* 6 */
    uint32_t source_graph, padding3; /* 7 */
    uint64_t source_node;
};

struct RECORD peer_copy_record {
    uint32_t kind;
    uint8_t copy_kind, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t from_device, from_context, to_device, to_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;     /* 2 */
    uint32_t graph, channel; /* 3 */
    uint32_t channel_kind;   /* 4 */
    uint32_t padding;
};

struct RECORD memset_record {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;     /* 2 */
    uint32_t graph, channel; /* 3 */
    uint32_t channel_kind;   /* 4 */
    uint8_t from_device, padding2[3];
    uint32_t source_graph, padding3; /* 5 */
    uint64_t source_node;
};

struct RECORD call_record {
    uint32_t kind, cbid;
    uint64_t start, end;
    uint32_t pid, tid, correlation;
    int32_t result;
};

struct RECORD sync_record {
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
    uint64_t event_record; /* 2 */
    uint32_t result, padding;
};

struct RECORD overhead_record {
    uint32_t kind, overhead, object;
    uint32_t object_id[3]; /* of a thread: pid, tid */
    uint64_t start, end;
    uint32_t correlation, reserved; /* 2 */
    void *data;                     /* 3 */
};

struct RECORD external_record {
    uint32_t kind, external_kind;
    uint64_t external_id;
    uint32_t correlation, reserved;
};

struct RECORD device_record {
    uint32_t kind, flags;
    uint64_t bandwidth, memory_bytes;
    uint32_t numbers[4];
    uint32_t copy_engines, multiprocessors;
    uint32_t limits[14];
    uint32_t compute_major, compute_minor, device, ecc;
    uint8_t uuid[16];
    const char *name;
    uint8_t visible, mig, reserved[6]; /* 3 */
    uint32_t gpu_instance, compute_instance; /* 4 */
    uint8_t mig_uuid[16];
    uint32_t is_numa_node, numa_node; /* 5 */
    uint32_t tpcs, reserved2;         /* 6 */
};

struct RECORD context_record {
    uint32_t kind, context, device;
    uint16_t api, null_stream;
    uint32_t parent; /* 2 */
    uint8_t green, padding;
    uint16_t multiprocessors;
    uint32_t cig_mode, padding2; /* 3 */
    uint64_t pid;                /* 4 */
};

struct RECORD name_record {
    uint32_t kind, object;
    uint32_t object_id[3]; /* of a stream: device, context, stream */
    uint32_t padding;
    const char *name;
};

struct RECORD memory_record {
    uint32_t kind, operation, memory_kind, correlation;
    uint64_t address, bytes, timestamp, pc;
    uint32_t pid, device, context, stream;
    const char *name;
    uint32_t async, padding;
    uint64_t pool[5]; /* 3 for its last word */
    const char *source; /* 4 */
};

struct RECORD event_record {
    uint32_t kind, correlation, context, stream, event, padding;
    uint32_t device, padding2; /* 2 */
    void *reserved;
    uint64_t device_timestamp, event_record;
    uint64_t graph_node; /* 3 */
    uint32_t graph, source_graph;
    uint64_t source_node;
};

struct RECORD unified_memory_record {
    uint32_t kind, counter;
    uint64_t value, start, end, address;
    uint32_t from, to, stream, pid, flags, padding;
    uint64_t processors[5]; /* 3 */
};

struct RECORD graph_record {
    uint32_t kind, correlation;
    uint64_t start, end;
    uint32_t device, graph, context, stream;
    void *reserved;
    uint32_t end_device, end_context; /* 2 */
};

struct RECORD stream_record {
    uint32_t kind, context, stream, priority, flags, correlation;
};

/* What cuptiGetVersion answers. */
uint32_t cupti_version(void);
/* As CUDA's: 11080 to 13050; of an unknown version the newest. */
int cupti_release(void);
/* 0: this version does not know the kind. */
size_t record_bytes(uint32_t kind);
/* What the device has not finished by now has no times in a buffer that is forced out. */
void forget_unfinished(uint8_t *buffer, size_t valid, uint64_t now_ns);

#endif
