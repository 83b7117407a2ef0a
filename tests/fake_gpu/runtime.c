/* libcudart: its start, devices, streams and events. Like the real one it does all through the driver. */
#include <pthread.h>

#include "runtime.h"

enum { INSUFFICIENT_DRIVER = 35 };

void *runtime_driver;

static int init_error;
static _Thread_local int thread_device;
static _Thread_local int last_error;

static void load_driver(void) {
    runtime_driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    init_error = runtime_driver == NULL ? INSUFFICIENT_DRIVER : DRIVER(cuInit)(0);
}

void runtime_enter(struct gpu_call *call) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_driver);
    if (runtime_driver != NULL)
        DRIVER(fake_gpu_enter)(call);
}

int runtime_leave(struct gpu_call *call, int result) {
    if (result != SUCCESS && result != NOT_READY)
        last_error = result;
    return runtime_driver == NULL ? result : DRIVER(fake_gpu_leave)(call, result);
}

struct gpu_context *runtime_primary(int device) {
    struct gpu_context *context = NULL;
    DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
    return context;
}

int runtime_context(void) {
    if (init_error != SUCCESS || DRIVER(fake_gpu_current)() != NULL)
        return init_error;
    struct gpu_context *context = runtime_primary(thread_device);
    return context == NULL ? INVALID_DEVICE : DRIVER(cuCtxSetCurrent)(context);
}

EXPORT int cudaRuntimeGetVersion(int *version) {
    RUNTIME_ENTER(cudaRuntimeGetVersion, version);
    *version = CUDA_VERSION;
    RUNTIME_LEAVE(SUCCESS);
}

/* 0 where there is no driver, which is no error. */
EXPORT int cudaDriverGetVersion(int *version) {
    RUNTIME_ENTER(cudaDriverGetVersion, version);
    *version = 0;
    RUNTIME_LEAVE(runtime_driver == NULL ? SUCCESS : DRIVER(cuDriverGetVersion)(version));
}

EXPORT int cudaGetDeviceCount(int *count) {
    RUNTIME_ENTER(cudaGetDeviceCount, count);
    *count = 0;
    RUNTIME_LEAVE(init_error ?: DRIVER(cuDeviceGetCount)(count));
}

EXPORT int cudaGetDevice(int *device) {
    RUNTIME_ENTER(cudaGetDevice, device);
    *device = thread_device;
    RUNTIME_LEAVE(init_error);
}

EXPORT int cudaSetDevice(int device) {
    RUNTIME_ENTER(cudaSetDevice, device);
    if (init_error != SUCCESS)
        RUNTIME_LEAVE(init_error);
    struct gpu_context *context = runtime_primary(device);
    if (context == NULL)
        RUNTIME_LEAVE(INVALID_DEVICE);
    thread_device = device;
    RUNTIME_LEAVE(DRIVER(cuCtxSetCurrent)(context));
}

EXPORT int cudaDeviceSynchronize(void) {
    RUNTIME_ENTER(cudaDeviceSynchronize);
    RUNTIME_DRIVE(cuCtxSynchronize);
}

EXPORT int cudaGetLastError(void) {
    RUNTIME_ENTER(cudaGetLastError);
    int error = last_error;
    runtime_leave(&call, SUCCESS);
    last_error = SUCCESS;
    return error;
}

EXPORT const char *cudaGetErrorString(int error) {
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {SUCCESS, "no error"},
        {INVALID_VALUE, "invalid argument"},
        {OUT_OF_MEMORY, "out of memory"},
        {INSUFFICIENT_DRIVER, "CUDA driver version is insufficient for CUDA runtime version"},
        {INVALID_DEVICE_FUNCTION, "invalid device function"},
        {NO_DEVICE, "no CUDA-capable device is detected"},
        {INVALID_DEVICE, "invalid device ordinal"},
        {INVALID_HANDLE, "invalid resource handle"},
        {NOT_READY, "device not ready"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].error == error)
            return texts[i].text;
    return "unrecognized error code";
}

/* ---- streams and events ---- */

EXPORT int cudaStreamCreate(struct gpu_stream **stream) {
    RUNTIME_ENTER(cudaStreamCreate, stream);
    RUNTIME_DRIVE(cuStreamCreate, stream, 0);
}

EXPORT int cudaStreamCreateWithFlags(struct gpu_stream **stream, unsigned flags) {
    RUNTIME_ENTER(cudaStreamCreateWithFlags, stream, flags);
    RUNTIME_DRIVE(cuStreamCreate, stream, flags);
}

EXPORT int cudaStreamDestroy(struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaStreamDestroy, stream);
    RUNTIME_DRIVE(cuStreamDestroy_v2, stream);
}

EXPORT int cudaStreamQuery(struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaStreamQuery, stream);
    RUNTIME_DRIVE(cuStreamQuery, stream);
}

EXPORT int cudaStreamSynchronize(struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaStreamSynchronize, stream);
    RUNTIME_DRIVE(cuStreamSynchronize, stream);
}

EXPORT int cudaStreamWaitEvent(struct gpu_stream *stream, struct gpu_event *event, unsigned flags) {
    RUNTIME_ENTER(cudaStreamWaitEvent, stream, event, flags);
    RUNTIME_DRIVE(cuStreamWaitEvent, stream, event, flags);
}

EXPORT int cudaEventCreate(struct gpu_event **event) {
    RUNTIME_ENTER(cudaEventCreate, event);
    RUNTIME_DRIVE(cuEventCreate, event, 0);
}

EXPORT int cudaEventCreateWithFlags(struct gpu_event **event, unsigned flags) {
    RUNTIME_ENTER(cudaEventCreateWithFlags, event, flags);
    RUNTIME_DRIVE(cuEventCreate, event, flags);
}

EXPORT int cudaEventDestroy(struct gpu_event *event) {
    RUNTIME_ENTER(cudaEventDestroy, event);
    RUNTIME_DRIVE(cuEventDestroy_v2, event);
}

EXPORT int cudaEventRecord(struct gpu_event *event, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaEventRecord, event, stream);
    RUNTIME_DRIVE(cuEventRecord, event, stream);
}

EXPORT int cudaEventQuery(struct gpu_event *event) {
    RUNTIME_ENTER(cudaEventQuery, event);
    RUNTIME_DRIVE(cuEventQuery, event);
}

EXPORT int cudaEventSynchronize(struct gpu_event *event) {
    RUNTIME_ENTER(cudaEventSynchronize, event);
    RUNTIME_DRIVE(cuEventSynchronize, event);
}

EXPORT int cudaEventElapsedTime(float *milliseconds, struct gpu_event *from, struct gpu_event *to) {
    RUNTIME_ENTER(cudaEventElapsedTime, milliseconds, from, to);
    RUNTIME_DRIVE(cuEventElapsedTime, milliseconds, from, to);
}
