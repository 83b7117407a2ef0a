/* libcudart: memory, copies and what sets memory. */
#include "runtime.h"

enum { HOST_TO_HOST = 0, HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3 };

static uint64_t number(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

EXPORT int cudaMalloc(void **address, size_t bytes) {
    RUNTIME_ENTER(cudaMalloc, address, bytes);
    RUNTIME_DRIVE(cuMemAlloc_v2, (uint64_t *)(void *)address, bytes);
}

EXPORT int cudaFree(void *address) {
    RUNTIME_ENTER(cudaFree, address);
    RUNTIME_DRIVE(cuMemFree_v2, number(address));
}

EXPORT int cudaMallocAsync(void **address, size_t bytes, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaMallocAsync, address, bytes, stream);
    RUNTIME_DRIVE(cuMemAllocAsync, (uint64_t *)(void *)address, bytes, stream);
}

EXPORT int cudaFreeAsync(void *address, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaFreeAsync, address, stream);
    RUNTIME_DRIVE(cuMemFreeAsync, number(address), stream);
}

static int copy(void *to, const void *from, size_t bytes, int kind) {
    switch (kind) {
    case HOST_TO_DEVICE:
        return DRIVER(cuMemcpyHtoD_v2)(number(to), from, bytes);
    case DEVICE_TO_HOST:
        return DRIVER(cuMemcpyDtoH_v2)(to, number(from), bytes);
    case DEVICE_TO_DEVICE:
        return DRIVER(cuMemcpyDtoD_v2)(number(to), number(from), bytes);
    default:
        return DRIVER(cuMemcpyAsync)(number(to), number(from), bytes, NULL) ?: DRIVER(cuStreamSynchronize)(NULL);
    }
}

EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    RUNTIME_ENTER(cudaMemcpy, to, from, bytes, kind);
    RUNTIME_LEAVE(runtime_context() ?: copy(to, from, bytes, kind));
}

static int copy_async(void *to, const void *from, size_t bytes, int kind, struct gpu_stream *stream) {
    switch (kind) {
    case HOST_TO_DEVICE:
        return DRIVER(cuMemcpyHtoDAsync_v2)(number(to), from, bytes, stream);
    case DEVICE_TO_HOST:
        return DRIVER(cuMemcpyDtoHAsync_v2)(to, number(from), bytes, stream);
    case DEVICE_TO_DEVICE:
        return DRIVER(cuMemcpyDtoDAsync_v2)(number(to), number(from), bytes, stream);
    default:
        return DRIVER(cuMemcpyAsync)(number(to), number(from), bytes, stream);
    }
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaMemcpyAsync, to, from, bytes, kind, stream);
    RUNTIME_LEAVE(runtime_context() ?: copy_async(to, from, bytes, kind, stream));
}

EXPORT int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                               struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaMemcpyPeerAsync, to, to_device, from, from_device, bytes, stream);
    int error = runtime_context();
    if (error != SUCCESS)
        RUNTIME_LEAVE(error);
    struct gpu_context *to_context = runtime_primary(to_device), *from_context = runtime_primary(from_device);
    if (to_context == NULL || from_context == NULL)
        RUNTIME_LEAVE(INVALID_DEVICE);
    RUNTIME_LEAVE(DRIVER(cuMemcpyPeerAsync)(number(to), to_context, number(from), from_context, bytes, stream));
}

EXPORT int cudaMemset(void *address, int value, size_t bytes) {
    RUNTIME_ENTER(cudaMemset, address, value, bytes);
    RUNTIME_DRIVE(cuMemsetD8_v2, number(address), (unsigned char)value, bytes);
}

EXPORT int cudaMemsetAsync(void *address, int value, size_t bytes, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaMemsetAsync, address, value, bytes, stream);
    RUNTIME_DRIVE(cuMemsetD8Async, number(address), (unsigned char)value, bytes, stream);
}
