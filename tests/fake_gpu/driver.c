/* libcuda: its start, devices and contexts. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

#define DEVICE_BYTES ((uint64_t)80 << 30)
#define NAME "Fake GPU"

static _Atomic bool initialized;
static int device_count;

EXPORT bool fake_gpu_initialized(void) {
    return initialized;
}

EXPORT int fake_gpu_device_count(void) {
    return device_count;
}

EXPORT const char *fake_gpu_device_name(void) {
    return NAME;
}

EXPORT uint64_t fake_gpu_device_bytes(void) {
    return DEVICE_BYTES;
}

/* As the real one: once, inside cuInit, without a word when it fails. */
static void load_injection(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path != NULL && *path != 0 ? dlopen(path, RTLD_NOW) : NULL;
    if (library == NULL)
        return;
    int (*initialize)(void);
    *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize != NULL)
        initialize();
}

static int initialize(void) {
    static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* an injection may call cuInit itself */
    static bool begun;
    pthread_mutex_lock(&lock);
    if (!begun) {
        begun = true;
        const char *devices = getenv("FAKE_GPU_DEVICES");
        device_count = devices == NULL ? 2 : atoi(devices);
        load_injection();
        initialized = device_count > 0;
        if (initialized)
            GPU_TELL(resource, GPU_INITIALIZED, NULL, NULL);
    }
    pthread_mutex_unlock(&lock);
    return initialized ? SUCCESS : NO_DEVICE;
}

EXPORT int cuInit(unsigned flags) {
    int result = initialize();
    DRIVER_ENTER(cuInit, flags);
    DRIVER_LEAVE(result);
}

EXPORT int cuDriverGetVersion(int *version) {
    DRIVER_ENTER(cuDriverGetVersion, version);
    *version = CUDA_VERSION;
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuDeviceGetCount(int *count) {
    DRIVER_ENTER(cuDeviceGetCount, count);
    *count = device_count;
    DRIVER_LEAVE(initialized ? SUCCESS : NOT_INITIALIZED);
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    DRIVER_ENTER(cuDeviceGet, device, ordinal);
    *device = ordinal;
    DRIVER_LEAVE(!initialized ? NOT_INITIALIZED : ordinal >= 0 && ordinal < device_count ? SUCCESS : INVALID_DEVICE);
}

EXPORT int cuDeviceGetName(char *name, int length, int device) {
    DRIVER_ENTER(cuDeviceGetName, name, length, device);
    snprintf(name, (size_t)length, NAME);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    DRIVER_ENTER(cuDeviceTotalMem_v2, bytes, device);
    *bytes = DEVICE_BYTES;
    DRIVER_LEAVE(SUCCESS);
}

/* ---- contexts ---- */

static int create_context(struct gpu_context **context, int device) {
    if (!initialized)
        return NOT_INITIALIZED;
    if (device < 0 || device >= device_count)
        return INVALID_DEVICE;
    *context = gpu_context_new(device, false);
    gpu_set_current(*context);
    return SUCCESS;
}

EXPORT int cuCtxCreate_v2(struct gpu_context **context, unsigned flags, int device) {
    DRIVER_ENTER(cuCtxCreate_v2, context, flags, device);
    DRIVER_LEAVE(create_context(context, device));
}

EXPORT int cuCtxCreate_v3(struct gpu_context **context, void *affinities, int count, unsigned flags, int device) {
    DRIVER_ENTER(cuCtxCreate_v3, context, affinities, count, flags, device);
    DRIVER_LEAVE(create_context(context, device));
}

EXPORT int cuCtxCreate_v4(struct gpu_context **context, void *creation, unsigned flags, int device) {
    DRIVER_ENTER(cuCtxCreate_v4, context, creation, flags, device);
    DRIVER_LEAVE(create_context(context, device));
}

EXPORT int cuCtxDestroy_v2(struct gpu_context *context) {
    DRIVER_ENTER(cuCtxDestroy_v2, context);
    if (context != NULL)
        gpu_context_free(context);
    DRIVER_LEAVE(context == NULL ? INVALID_VALUE : SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRetain(struct gpu_context **context, int device) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    DRIVER_ENTER(cuDevicePrimaryCtxRetain, context, device);
    if (device < 0 || device >= device_count)
        DRIVER_LEAVE(initialized ? INVALID_DEVICE : NOT_INITIALIZED);
    pthread_mutex_lock(&lock);
    *context = gpu_primary_context(device);
    if (*context == NULL)
        *context = gpu_context_new(device, true);
    pthread_mutex_unlock(&lock);
    DRIVER_LEAVE(SUCCESS);
}

/* The context stays: who retained it how often is not followed. */
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    DRIVER_ENTER(cuDevicePrimaryCtxRelease_v2, device);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuCtxSetCurrent(struct gpu_context *context) {
    DRIVER_ENTER(cuCtxSetCurrent, context);
    gpu_set_current(context);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuCtxGetCurrent(struct gpu_context **context) {
    DRIVER_ENTER(cuCtxGetCurrent, context);
    *context = fake_gpu_current();
    DRIVER_LEAVE(SUCCESS);
}
