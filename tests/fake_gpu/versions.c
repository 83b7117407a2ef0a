/* libcupti: which version it is (FAKE_CUPTI_VERSION), how long its records are, and so where the next one is. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cupti.h"

static const struct {
    const char *name;
    int release;
    uint32_t version;
} versions[] = {
    {"11.8", 11080, 18},     {"12.0", 12000, 18},     {"12.1", 12010, 18},     {"12.2", 12020, 20},
    {"12.3", 12030, 21},     {"12.4", 12040, 22},     {"12.5", 12050, 23},     {"12.6", 12060, 24},
    {"12.8", 12080, 26},     {"12.9", 12090, 28},     {"13.0", 13000, 130001}, {"13.1", 13010, 130101},
    {"13.2", 13020, 130202}, {"13.3", 13030, 130301}, {"13.4", 13040, 130401}, {"13.5", 13050, 130500},
};

/* From which release on a kind's records have a size. */
static const struct {
    uint32_t kind;
    int release;
    size_t bytes;
} sizes[] = {
    {KERNEL, 0, 200},
    {KERNEL, 12000, 208},
    {KERNEL, 13000, 216},
    {KERNEL, 13010, 224},
    {KERNEL, 13030, 232},
    {KERNEL, 13040, 248},
    {MEMCPY, 0, 88},
    {MEMCPY, 12080, 96},
    {MEMCPY, 13040, 112},
    {PEER_COPY, 0, 96},
    {MEMSET, 0, 88},
    {MEMSET, 13040, 104},
    {DRIVER, 0, 40},
    {RUNTIME, 0, 40},
    {INTERNAL_LAUNCH, 0, 40},
    {SYNCHRONIZATION, 0, 40},
    {SYNCHRONIZATION, 12080, 56},
    {OVERHEAD, 0, 40},
    {OVERHEAD, 12030, 48},
    {OVERHEAD, 12040, 56},
    {EXTERNAL_CORRELATION, 0, 24},
    {DEVICE, 0, 176},
    {DEVICE, 12020, 184},
    {DEVICE, 13020, 192},
    {CONTEXT, 0, 16},
    {CONTEXT, 12040, 24},
    {CONTEXT, 12050, 32},
    {CONTEXT, 13010, 40},
    {NAME, 0, 32},
    {MEMORY, 0, 120},
    {MEMORY, 12060, 128},
    {CUDA_EVENT, 0, 24},
    {CUDA_EVENT, 12080, 56},
    {CUDA_EVENT, 13050, 80},
    {UNIFIED_MEMORY, 0, 64},
    {UNIFIED_MEMORY, 12080, 104},
    {GRAPH_TRACE, 0, 48},
    {GRAPH_TRACE, 12030, 56},
    {STREAM, 0, 24},
    {UNKNOWN_ACTIVITY, 0, 64},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t version;
static int release;
static size_t bytes_of[ACTIVITIES];

static void decide(void) {
    const char *name = getenv("FAKE_CUPTI_VERSION");
    if (name == NULL)
        name = DEFAULT_VERSION;
    version = (uint32_t)strtoul(name, NULL, 10);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        release = versions[i].release;
        if (strcmp(name, versions[i].name) == 0) {
            version = versions[i].version;
            break;
        }
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].release <= release && sizes[i].kind < ACTIVITIES)
            bytes_of[sizes[i].kind] = sizes[i].bytes;
    bytes_of[CONCURRENT_KERNEL] = bytes_of[KERNEL];
}

uint32_t cupti_version(void) {
    pthread_once(&once, decide);
    return version;
}

int cupti_release(void) {
    pthread_once(&once, decide);
    return release;
}

size_t record_bytes(uint32_t kind) {
    pthread_once(&once, decide);
    return kind < ACTIVITIES ? bytes_of[kind] : kind == UNKNOWN_ACTIVITY ? 64 : 0;
}

/* Its errors are those that the public packages gave: for a record that is cut short, that there is no more. */
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    CUPTI_GATE();
    if (buffer == NULL || record == NULL)
        return INVALID_PARAMETER;
    uint32_t kind;
    uint8_t *next = buffer;
    if (*record != NULL) {
        memcpy(&kind, *record, sizeof kind);
        next = *record + record_bytes(kind);
    }
    size_t left = next < buffer + valid ? (size_t)(buffer + valid - next) : 0;
    if (left < sizeof kind)
        return MAX_LIMIT_REACHED;
    memcpy(&kind, next, sizeof kind);
    if (record_bytes(kind) == 0)
        return cupti_release() < 12040 ? UNKNOWN_ERROR : INVALID_KIND;
    if (record_bytes(kind) > left)
        return MAX_LIMIT_REACHED;
    *record = next;
    return OK;
}

static bool is_timed(uint32_t kind) {
    return kind == KERNEL || kind == CONCURRENT_KERNEL || kind == MEMCPY || kind == MEMSET || kind == PEER_COPY;
}

void forget_unfinished(uint8_t *buffer, size_t valid, uint64_t now_ns) {
    for (size_t at = 0; at < valid;) {
        struct kernel_record *record = (struct kernel_record *)(void *)(buffer + at); /* all have their times there */
        uint32_t kind = record->kind;
        if (is_timed(kind) && record->end > now_ns)
            record->start = record->end = 0;
        at += record_bytes(kind);
    }
}
