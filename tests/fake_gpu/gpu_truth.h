/* What gpu_job.c did: its kernels and how long they last, what it counts, and how that is printed. */
#ifndef FAKE_GPU_TRUTH_H
#define FAKE_GPU_TRUTH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_api.h"

/* ---- kernels, registered as nvcc's start-up code does ---- */

#define KERNELS(X) X(_Z8spin_form, spin_for) X(_Z5scalePfi, scale) X(_Z3addPfS_S_i, add)
#define KERNEL_INDEX(mangled, name) K_##name,
#define KERNEL_NAME(mangled, name) #mangled,
#define KERNEL_STUB(mangled, name)            \
    static void name(void) {                  \
        __asm__ volatile("" ::"i"(K_##name)); \
    }
#define KERNEL_FUNCTION(mangled, name) (const void *)name,
enum { KERNELS(KERNEL_INDEX) KERNEL_COUNT };
KERNELS(KERNEL_STUB)
static const char *const kernel_names[] = {KERNELS(KERNEL_NAME)};
static const void *const kernel_functions[] = {KERNELS(KERNEL_FUNCTION)};

__attribute__((constructor)) static void register_kernels(void) {
    static int binary;
    void **handle = __cudaRegisterFatBinary(&binary);
    for (int i = 0; i < KERNEL_COUNT; i++)
        __cudaRegisterFunction(handle, kernel_functions[i], (char *)kernel_names[i], kernel_names[i], -1, NULL, NULL,
                               NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
}

/* ---- the truth ---- */

#define CALLS(X)             \
    X(cudaGetDevice)         \
    X(cudaSetDevice)         \
    X(cudaGetLastError)      \
    X(cudaLaunchKernel)      \
    X(cudaMemcpyAsync)       \
    X(cudaMemcpyPeerAsync)   \
    X(cudaMemsetAsync)       \
    X(cudaMalloc)            \
    X(cudaFree)              \
    X(cudaEventRecord)       \
    X(cudaEventSynchronize)  \
    X(cudaStreamWaitEvent)   \
    X(cudaStreamSynchronize) \
    X(cudaDeviceSynchronize) \
    X(cudaGraphLaunch)       \
    X(cuLaunchKernel)
#define CALL_INDEX(name) CALL_##name,
#define CALL_NAME(name) #name,
enum { CALLS(CALL_INDEX) CALL_COUNT };
static const char *const call_names[] = {CALLS(CALL_NAME)};

enum { HTOD, DTOH, PTOP, MEMSET, COPY_COUNT };
static const char *const copy_names[] = {"HtoD", "DtoH", "PtoP", "memset"};

struct truth {
    uint64_t calls[CALL_COUNT];
    uint64_t kernels[KERNEL_COUNT], kernel_ns[KERNEL_COUNT];
    uint64_t copies[COPY_COUNT], copy_bytes[COPY_COUNT], copy_ns[COPY_COUNT];
    uint64_t launches;
};

static void fail(const char *what, int error) {
    fprintf(stderr, "gpu_job: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static void check(const char *what, int error) {
    if (error != 0)
        fail(what, error);
}

#define CALL(truth, name, ...) ((truth)->calls[CALL_##name]++, check(#name, name(__VA_ARGS__)))

static uint64_t spin_ns(uint64_t number) {
    return 101 + number % 7 * 100;
}

static uint64_t kernel_ns(int kernel, uint64_t number) {
    return kernel == K_spin_for ? spin_ns(number) : 1009 + 31 * strlen(kernel_names[kernel]);
}

static void count_kernel(struct truth *truth, int kernel, uint64_t number) {
    truth->kernels[kernel]++;
    truth->kernel_ns[kernel] += kernel_ns(kernel, number);
}

static void count_copy(struct truth *truth, int copy, uint64_t bytes) {
    truth->copies[copy]++;
    truth->copy_bytes[copy] += bytes;
    truth->copy_ns[copy] += copy == MEMSET ? 257 + (bytes + 63) / 64 : 509 + (bytes + 15) / 16;
}

/* All of the answer but the launches by thread, which a comma leaves to come. */
static void print_truth(const struct truth *all) {
    printf("{\"graph_launches\": %lu, \"calls\": {", all->calls[CALL_cudaGraphLaunch]);
    for (int i = 0; i < CALL_COUNT; i++)
        printf("%s\"%s\": %lu", i ? ", " : "", call_names[i], all->calls[i]);
    printf("}, \"kernels\": {");
    for (int i = 0; i < KERNEL_COUNT; i++)
        printf("%s\"%s\": {\"count\": %lu, \"ns\": %lu}", i ? ", " : "", kernel_names[i], all->kernels[i],
               all->kernel_ns[i]);
    printf("}, \"copies\": {");
    for (int i = 0; i < COPY_COUNT; i++)
        printf("%s\"%s\": {\"count\": %lu, \"bytes\": %lu, \"ns\": %lu}", i ? ", " : "", copy_names[i], all->copies[i],
               all->copy_bytes[i], all->copy_ns[i]);
    printf("}, ");
}

#endif
