/* libcupti: finding the driver, looking on at it, letting go of it; and what it answers about itself. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cupti.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *cuda;
static bool attached;
static _Atomic unsigned finalized;

static void tell_work(const struct gpu_work *work, const struct gpu_call *call) {
    record_work(work, call);
}

static void tell_sync(const struct gpu_sync *sync, const struct gpu_call *call) {
    record_sync(sync, call);
    callback_sync(sync);
}

static void tell_resource(enum gpu_resource what, struct gpu_context *context, void *handle,
                          const struct gpu_call *call) {
    if (what == GPU_INITIALIZED)
        record_devices();
    else if (what == GPU_CONTEXT_CREATED)
        record_context(context);
    else if (what == GPU_STREAM_CREATED)
        record_stream(context, handle, call);
    callback_resource(what, context, handle);
}

static const struct gpu_tool tool = {
    .enter = callback_enter,
    .leave = callback_leave,
    .work = tell_work,
    .sync = tell_sync,
    .event = record_event,
    .allocation = record_allocation,
    .resource = tell_resource,
};

unsigned cupti_switch(const char *variable, const char *word) {
    const char *at = getenv(variable);
    size_t length = strlen(word);
    while (at != NULL && *at != 0) {
        if (strncmp(at, word, length) == 0 && strchr(":,", at[length]) != NULL)
            return at[length] == ':' ? (unsigned)strtoul(at + length + 1, NULL, 10) : 1;
        at = strchr(at, ',');
        at = at == NULL ? NULL : at + 1;
    }
    return 0;
}

void *cupti_cuda_symbol(const char *name) {
    return dlsym(cuda, name);
}

enum cupti_result cupti_attach(void) {
    pthread_mutex_lock(&lock);
    if (cuda == NULL && cupti_switch("FAKE_CUPTI", "no_driver") == 0)
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda != NULL && !attached) {
        CUDA(fake_gpu_set_tool)(&tool);
        attached = true;
    }
    pthread_mutex_unlock(&lock);
    /* As the real ones answer on a machine without a driver. */
    return attached ? OK : cupti_release() < 13000 ? NO_INITIALIZATION : UNKNOWN_ERROR;
}

EXPORT int cuptiFinalize(void) {
    pthread_mutex_lock(&lock);
    if (attached) {
        CUDA(fake_gpu_set_tool)(NULL);
        CUDA(fake_gpu_set_clock)(NULL);
        attached = false;
    }
    pthread_mutex_unlock(&lock);
    callbacks_finalize();
    kinds_forget();
    queue_forget();
    finalized++;
    return OK;
}

EXPORT int cuptiGetVersion(uint32_t *version) {
    if (version == NULL)
        return INVALID_PARAMETER;
    *version = cupti_version();
    return OK;
}

EXPORT int cuptiGetTimestamp(uint64_t *timestamp) {
    enum cupti_result result = timestamp == NULL ? INVALID_PARAMETER : cupti_attach();
    if (result == OK)
        *timestamp = CUDA(fake_gpu_now)();
    return result;
}

EXPORT int cuptiGetContextId(struct gpu_context *context, uint32_t *id) {
    if (context == NULL || id == NULL)
        return INVALID_PARAMETER;
    *id = context->id;
    return OK;
}

EXPORT int cuptiGetDeviceId(struct gpu_context *context, uint32_t *device) {
    if (context == NULL || device == NULL)
        return INVALID_PARAMETER;
    *device = (uint32_t)context->device;
    return OK;
}

EXPORT int cuptiGetStreamId(struct gpu_context *context, struct gpu_stream *stream, uint32_t *id) {
    if (context == NULL || id == NULL)
        return INVALID_PARAMETER;
    *id = (uintptr_t)stream > 2 ? stream->id : context->null_stream->id;
    return OK;
}

EXPORT int cuptiGetStreamIdEx(struct gpu_context *context, struct gpu_stream *stream, uint8_t per_thread,
                              uint32_t *id) {
    (void)per_thread;
    return cuptiGetStreamId(context, stream, id);
}

EXPORT int cuptiGetResultString(int result, const char **text) {
    static const struct {
        enum cupti_result result;
        const char *text;
    } texts[] = {
        {OK, "CUPTI_SUCCESS"},
        {INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER"},
        {INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION"},
        {MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
        {NO_INITIALIZATION, "CUPTI_ERROR_NOT_INITIALIZED"},
        {QUEUE_EMPTY, "CUPTI_ERROR_QUEUE_EMPTY"},
        {INVALID_KIND, "CUPTI_ERROR_INVALID_KIND"},
        {UNSUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED"},
        {MULTIPLE_SUBSCRIBERS, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
        {UNKNOWN_ERROR, "CUPTI_ERROR_UNKNOWN"},
    };
    if (text == NULL)
        return INVALID_PARAMETER;
    if (cupti_release() >= 13050 && !attached)
        return OK; /* 13.5 without a driver: says that all is well and leaves the pointer as it was */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((int)texts[i].result == result) {
            *text = texts[i].text;
            return OK;
        }
    return INVALID_PARAMETER;
}

EXPORT unsigned fake_cupti_finalized(void) {
    return finalized;
}

EXPORT bool fake_cupti_attached(void) {
    return attached;
}
