/* libcupti: finding the driver, looking on at it, letting go of it; and what it answers about itself. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static bool find_driver(void) {
    if (cuda == NULL && cupti_switch("FAKE_CUPTI", "no_driver") == 0)
        cuda = dlopen("libcuda.so.1", RTLD_NOW);
    return cuda != NULL;
}

/* As the driver does when it is first used. */
static void *load_kernel_module(void *unused) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return unused;
}

void cupti_await_fork(void) {
    static _Atomic bool done;
    pthread_t thread;
    if (cupti_switch("FAKE_CUPTI", "flush_forks") != 0 && !atomic_exchange(&done, true) &&
        pthread_create(&thread, NULL, load_kernel_module, NULL) == 0)
        pthread_join(thread, NULL);
}

/* The answers without a driver were those of the public packages on a machine without one; 13.2's crashed instead. */
enum cupti_result cupti_attach(void) {
    pthread_mutex_lock(&lock);
    if (find_driver() && !attached) {
        if (cupti_switch("FAKE_CUPTI", "forks") != 0)
            load_kernel_module(NULL);
        CUDA(fake_gpu_set_tool)(&tool);
        attached = true;
    }
    pthread_mutex_unlock(&lock);
    return attached ? OK : cupti_release() < 13000 ? NO_INITIALIZATION : UNKNOWN_ERROR;
}

enum cupti_result cupti_gate(void) {
    pthread_mutex_lock(&lock);
    bool found = find_driver();
    pthread_mutex_unlock(&lock);
    return found || cupti_release() < 13020 ? OK : UNKNOWN_ERROR;
}

uint64_t cupti_now(void) {
    if (cuda != NULL)
        return CUDA(fake_gpu_now)();
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

EXPORT int cuptiFinalize(void) {
    CUPTI_GATE();
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
    CUPTI_GATE();
    if (version == NULL)
        return INVALID_PARAMETER;
    *version = cupti_version();
    return OK;
}

EXPORT int cuptiGetTimestamp(uint64_t *timestamp) {
    CUPTI_GATE();
    if (timestamp == NULL)
        return INVALID_PARAMETER;
    *timestamp = cupti_now();
    return OK;
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
    CUPTI_GATE();
    if (text == NULL)
        return INVALID_PARAMETER;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if ((int)texts[i].result == result) {
            *text = texts[i].text;
            return OK;
        }
    *text = "<unknown>";
    return INVALID_PARAMETER;
}

EXPORT unsigned fake_cupti_finalized(void) {
    return finalized;
}

EXPORT int fake_cupti_attached(void) {
    return attached;
}
