/* libcuda: memory, copies and what sets memory. They really happen, at once; their times are virtual.
 *
 * A copy lasts 509 ns and 1 ns for every 16 bytes that were begun; a memset 257 ns and 1 ns for every 64.
 */
#include <string.h>

#include "device.h"

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 8, HOST_TO_HOST = 9, PEER_TO_PEER = 10 };
enum { PAGEABLE = 1, DEVICE = 3 };

static void *at(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static void queue_copy(struct gpu_work *work) {
    gpu_stream_queue(work, 509 + (work->bytes + 15) / 16);
    GPU_TELL(work, work);
}

static int copy(uint64_t to, uint64_t from, size_t bytes, uint8_t kind, struct gpu_stream *handle, bool async) {
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        return NO_CONTEXT;
    memmove(at(to), at(from), bytes);
    bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
    bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
    struct gpu_work work = {
        .kind = GPU_MEMCPY,
        .stream = stream,
        .bytes = bytes,
        .copy_kind = kind,
        .from_kind = from_device ? DEVICE : PAGEABLE,
        .to_kind = to_device ? DEVICE : PAGEABLE,
        .async = async,
    };
    queue_copy(&work);
    if (!async)
        gpu_wait_until(work.end_ns);
    return SUCCESS;
}

EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    DRIVER_ENTER(cuMemcpyHtoD_v2, to, from, bytes);
    DRIVER_LEAVE(copy(to, (uintptr_t)from, bytes, HOST_TO_DEVICE, NULL, false));
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    DRIVER_ENTER(cuMemcpyDtoH_v2, to, from, bytes);
    DRIVER_LEAVE(copy((uintptr_t)to, from, bytes, DEVICE_TO_HOST, NULL, false));
}

EXPORT int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
    DRIVER_ENTER(cuMemcpyDtoD_v2, to, from, bytes);
    DRIVER_LEAVE(copy(to, from, bytes, DEVICE_TO_DEVICE, NULL, false));
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemcpyHtoDAsync_v2, to, from, bytes, stream);
    DRIVER_LEAVE(copy(to, (uintptr_t)from, bytes, HOST_TO_DEVICE, stream, true));
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemcpyDtoHAsync_v2, to, from, bytes, stream);
    DRIVER_LEAVE(copy((uintptr_t)to, from, bytes, DEVICE_TO_HOST, stream, true));
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
    DRIVER_LEAVE(copy(to, from, bytes, DEVICE_TO_DEVICE, stream, true));
}

EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemcpyAsync, to, from, bytes, stream);
    static const uint8_t kinds[2][2] = {{HOST_TO_HOST, HOST_TO_DEVICE}, {DEVICE_TO_HOST, DEVICE_TO_DEVICE}};
    uint8_t kind = kinds[fake_gpu_is_device_address(from)][fake_gpu_is_device_address(to)];
    DRIVER_LEAVE(copy(to, from, bytes, kind, stream, true));
}

EXPORT int cuMemcpyPeerAsync(uint64_t to, struct gpu_context *to_context, uint64_t from,
                             struct gpu_context *from_context, size_t bytes, struct gpu_stream *handle) {
    DRIVER_ENTER(cuMemcpyPeerAsync, to, to_context, from, from_context, bytes, handle);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    memmove(at(to), at(from), bytes);
    struct gpu_work work = {
        .kind = GPU_PEER_COPY,
        .stream = stream,
        .bytes = bytes,
        .copy_kind = PEER_TO_PEER,
        .from_kind = DEVICE,
        .to_kind = DEVICE,
        .async = true,
        .from = from_context,
        .to = to_context,
    };
    queue_copy(&work);
    DRIVER_LEAVE(SUCCESS);
}

static int set(uint64_t address, unsigned char value, size_t bytes, struct gpu_stream *handle, bool async) {
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        return NO_CONTEXT;
    memset(at(address), value, bytes);
    struct gpu_work work = {
        .kind = GPU_MEMSET, .stream = stream, .bytes = bytes, .value = value, .to_kind = DEVICE, .async = async};
    gpu_stream_queue(&work, 257 + (bytes + 63) / 64);
    GPU_TELL(work, &work);
    return SUCCESS;
}

EXPORT int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes) {
    DRIVER_ENTER(cuMemsetD8_v2, address, value, bytes);
    DRIVER_LEAVE(set(address, value, bytes, NULL, false));
}

EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemsetD8Async, address, value, bytes, stream);
    DRIVER_LEAVE(set(address, value, bytes, stream, true));
}

/* ---- memory ---- */

static int allocate(uint64_t *address, size_t bytes, struct gpu_stream *stream, bool async) {
    struct gpu_context *context = fake_gpu_current();
    if (context == NULL)
        return NO_CONTEXT;
    *address = gpu_memory_new(bytes);
    if (*address == 0)
        return bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    struct gpu_allocation told = {*address, bytes, false, async, context, stream};
    GPU_TELL(allocation, &told);
    return SUCCESS;
}

static int release(uint64_t address, struct gpu_stream *stream, bool async) {
    uint64_t bytes = gpu_memory_free(address);
    if (bytes == 0)
        return address == 0 ? SUCCESS : INVALID_VALUE;
    struct gpu_allocation told = {address, bytes, true, async, fake_gpu_current(), stream};
    GPU_TELL(allocation, &told);
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    DRIVER_ENTER(cuMemAlloc_v2, address, bytes);
    DRIVER_LEAVE(allocate(address, bytes, NULL, false));
}

EXPORT int cuMemFree_v2(uint64_t address) {
    DRIVER_ENTER(cuMemFree_v2, address);
    DRIVER_LEAVE(release(address, NULL, false));
}

EXPORT int cuMemAllocAsync(uint64_t *address, size_t bytes, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemAllocAsync, address, bytes, stream);
    DRIVER_LEAVE(allocate(address, bytes, gpu_stream_of(stream), true));
}

EXPORT int cuMemFreeAsync(uint64_t address, struct gpu_stream *stream) {
    DRIVER_ENTER(cuMemFreeAsync, address, stream);
    DRIVER_LEAVE(release(address, gpu_stream_of(stream), true));
}
