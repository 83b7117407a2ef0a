/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_functions.h"

#include <stdio.h>
#include <string.h>

#include "../job/process.h"
#include "cupti_api.h"

/* Generation, whether calls of the function launch work, and the id of its name, in one word. */
#define LAUNCHES 0x80000000u /* no id is so large: logs end at 1 GB */
#define IDS 2048u /* CUDA 13 has some 800 functions in the driver's domain */
static uint64_t names[2][IDS];

static const char *const launching[] = {"cudaLaunch",    "__cudaLaunch",    "cuLaunch",     "cudaGraphLaunch",
                                        "cuGraphLaunch", "cudaMemcpy",      "cuMemcpy",     "cudaMemset",
                                        "cuMemset",      "cudaMemPrefetch", "cuMemPrefetch"};

/* What only asks or sets something of its thread: torch makes some twenty of these for every launch, none takes as long as
 * to record it, and none does anything that its neighbours do not show. Work that cudaSetDevice does at first, for the
 * context, is in the driver's calls. */
static const char *const quiet[] = {"cudaGetDevice",
                                    "cudaSetDevice",
                                    "cudaGetLastError",
                                    "cudaPeekAtLastError",
                                    "cudaDeviceGetAttribute",
                                    "cudaStreamIsCapturing",
                                    "cudaStreamGetCaptureInfo",
                                    "cudaStreamGetCaptureInfo_v2",
                                    "cudaStreamGetCaptureInfo_v3",
                                    "cudaThreadExchangeStreamCaptureMode",
                                    "__cudaPushCallConfiguration",
                                    "__cudaPopCallConfiguration",
                                    "cuCtxGetCurrent",
                                    "cuCtxSetCurrent",
                                    "cuCtxGetDevice",
                                    "cuDeviceGetAttribute",
                                    "cuDevicePrimaryCtxGetState",
                                    "cuStreamIsCapturing",
                                    "cuStreamGetCaptureInfo",
                                    "cuStreamGetCaptureInfo_v2",
                                    "cuStreamGetCaptureInfo_v3",
                                    "cuThreadExchangeStreamCaptureMode",
                                    "cuKernelGetAttribute",
                                    "cuFuncGetAttribute",
                                    "cuGetErrorString",
                                    "cuGetErrorName"};

static bool launches_work(const char *name) {
    for (unsigned i = 0; i < sizeof launching / sizeof *launching; i++)
        if (strncmp(name, launching[i], strlen(launching[i])) == 0)
            return true;
    return false;
}

static bool ends_with(const char *name, size_t size, const char *suffix) {
    size_t length = strlen(suffix);
    return size > length && memcmp(name + size - length, suffix, length) == 0;
}

/* Without what tells the release that a function is of (_v7000), and how it takes the default stream. */
static size_t plain_size(const char *name) {
    size_t size = strlen(name);
    for (;;) {
        if (ends_with(name, size, "_ptsz") || ends_with(name, size, "_ptds")) {
            size -= strlen("_ptsz");
            continue;
        }
        size_t at = size;
        while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
            at--;
        if (size - at < 4 || at < 3 || name[at - 1] != 'v' || name[at - 2] != '_')
            return size;
        size = at - 2;
    }
}

static bool is_quiet(const char *name) {
    size_t size = plain_size(name);
    for (unsigned i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (strlen(quiet[i]) == size && memcmp(quiet[i], name, size) == 0)
            return true;
    return false;
}

void cupti_leave_quiet_out(void *subscriber, uint32_t domain) {
    if (cupti_api.callback_name == NULL || cupti_api.enable_callback == NULL)
        return;
    for (uint32_t id = 1; id < IDS; id++) {
        const char *name = NULL;
        if (cupti_api.callback_name(domain, id, &name) == CUPTI_SUCCESS && name != NULL && is_quiet(name))
            (void)cupti_api.enable_callback(0, subscriber, domain, id);
    }
}

static __attribute__((noinline)) uint64_t first_word(uint32_t domain, uint32_t id, const char *function) {
    char text[48];
    if (function == NULL) {
        snprintf(text, sizeof text, "%s call %u", domain == CUPTI_RUNTIME ? "runtime" : "driver", id);
        function = text;
    }
    uint32_t name = pln_intern(function, plain_size(function));
    uint64_t word = (uint64_t)pln_process.generation << 32 | name | (launches_work(function) ? LAUNCHES : 0);
    if (id < IDS && name != 0) /* in a signal handler a name may not be had: the next call tries again */
        __atomic_store_n(&names[domain == CUPTI_RUNTIME][id], word, __ATOMIC_RELAXED);
    return word;
}

struct cupti_function cupti_function(uint32_t domain, uint32_t id, const char *function) {
    uint64_t word = id < IDS ? __atomic_load_n(&names[domain == CUPTI_RUNTIME][id], __ATOMIC_RELAXED) : 0;
    if (PLN_UNLIKELY(word >> 32 != pln_process.generation))
        word = first_word(domain, id, function);
    return (struct cupti_function){(uint32_t)word & ~LAUNCHES, (word & LAUNCHES) != 0};
}

/* A job may ask again and again whether an event is ready, and get error 600 each time. */
uint32_t cupti_error_id(int32_t error) {
    static uint64_t known[1024];
    uint64_t other = 0;
    char text[32];
    snprintf(text, sizeof text, "error %d", error);
    return pln_intern_site(error > 0 && error < 1024 ? &known[error] : &other, text);
}
