/* libcupti: the one subscriber, and what it is called back for. */
#include <stdatomic.h>
#include <string.h>

#include "cupti.h"

enum { DOMAINS = 7, CALLBACKS = 1024 };

typedef void (*callback_function)(void *userdata, int domain, uint32_t cbid, const void *data);

struct call_data { /* as CUpti_CallbackData */
    int site;      /* 0: enter, 1: exit */
    const char *function;
    const void *params;
    void *result;
    const char *symbol;
    struct gpu_context *context;
    uint32_t context_id;
    uint64_t *client_word;
    uint32_t correlation;
};
_Static_assert(sizeof(struct call_data) == 72, "CUpti_CallbackData");

struct resource_data { /* as CUpti_ResourceData */
    struct gpu_context *context;
    void *handle;
    void *descriptor;
};

struct module_data { /* as CUpti_ModuleResourceData */
    uint32_t id;
    size_t bytes;
    const char *image;
};

struct sync_data { /* as CUpti_SynchronizeData */
    struct gpu_context *context;
    const void *stream;
};

static struct subscriber {
    _Atomic(callback_function) function;
    void *userdata;
} subscriber;
static _Atomic unsigned char enabled[DOMAINS][CALLBACKS];
static _Atomic uint32_t correlations;

static bool wanted(int domain, uint32_t cbid) {
    return atomic_load_explicit(&enabled[domain][cbid], memory_order_relaxed);
}

static void call_back(int domain, uint32_t cbid, const void *data) {
    callback_function function = atomic_load(&subscriber.function);
    if (function != NULL)
        function(subscriber.userdata, domain, cbid, data);
}

/* ---- what the client calls ---- */

EXPORT int cuptiSubscribe(struct subscriber **handle, callback_function function, void *userdata) {
    if (handle == NULL)
        return INVALID_PARAMETER;
    enum cupti_result result = cupti_attach();
    if (result != OK)
        return result;
    callback_function none = NULL;
    if (cupti_switch("FAKE_CUPTI", "held") != 0)
        return MULTIPLE_SUBSCRIBERS;
    if (!atomic_compare_exchange_strong(&subscriber.function, &none, function))
        return MULTIPLE_SUBSCRIBERS;
    subscriber.userdata = userdata;
    *handle = &subscriber;
    return OK;
}

static bool is_subscribed(const struct subscriber *handle) {
    return handle == &subscriber && subscriber.function != NULL;
}

EXPORT int cuptiUnsubscribe(struct subscriber *handle) {
    CUPTI_GATE();
    if (!is_subscribed(handle))
        return INVALID_PARAMETER;
    callbacks_forget();
    return OK;
}

EXPORT int cuptiEnableCallback(uint32_t enable, struct subscriber *handle, int domain, uint32_t cbid) {
    CUPTI_GATE();
    if (!is_subscribed(handle) || domain <= 0 || domain >= DOMAINS || cbid >= CALLBACKS)
        return INVALID_PARAMETER;
    enabled[domain][cbid] = enable != 0;
    return OK;
}

EXPORT int cuptiEnableDomain(uint32_t enable, struct subscriber *handle, int domain) {
    CUPTI_GATE();
    if (!is_subscribed(handle) || domain <= 0 || domain >= DOMAINS)
        return INVALID_PARAMETER;
    for (uint32_t cbid = 0; cbid < CALLBACKS; cbid++)
        enabled[domain][cbid] = enable != 0;
    return OK;
}

EXPORT int cuptiEnableAllDomains(uint32_t enable, struct subscriber *handle) {
    int result = INVALID_PARAMETER;
    for (int domain = 1; domain < DOMAINS; domain++)
        result = cuptiEnableDomain(enable, handle, domain);
    return result;
}

EXPORT int cuptiGetCallbackState(uint32_t *enable, struct subscriber *handle, int domain, uint32_t cbid) {
    if (enable == NULL || !is_subscribed(handle) || domain <= 0 || domain >= DOMAINS || cbid >= CALLBACKS)
        return INVALID_PARAMETER;
    *enable = wanted(domain, cbid);
    return OK;
}

void callbacks_forget(void) {
    for (int domain = 0; domain < DOMAINS; domain++)
        for (uint32_t cbid = 0; cbid < CALLBACKS; cbid++)
            enabled[domain][cbid] = 0;
    subscriber.function = NULL;
}

void callbacks_finalize(void) {
    callbacks_forget();
    correlations = 0;
}

/* ---- what happens ---- */

static void call_back_for(struct gpu_call *call, int site) {
    struct gpu_context *context = CUDA(fake_gpu_current)();
    struct call_data data = {
        .site = site,
        .function = call->name,
        .params = call->params,
        .result = site == 0 ? NULL : &call->result,
        .symbol = call->symbol,
        .context = context,
        .context_id = context == NULL ? 0 : context->id,
        .client_word = &call->client_word,
        .correlation = call->correlation_id,
    };
    call_back(call->domain, call->cbid, &data);
}

/* A driver call inside a runtime call has the runtime call's correlation id: NVIDIA documents that the id of a kernel's
 * record equals that of the driver call which launched it, and traces show that it equals the runtime call's, whose
 * neighbours' ids differ from it by one (https://github.com/pytorch/pytorch/issues/99615).
 */
void callback_enter(struct gpu_call *call) {
    call->correlation_id = call->outer != NULL ? call->outer->correlation_id : ++correlations;
    if (call_recorded(call)) {
        if (call->outer == NULL || call->outer->start_ns == 0)
            record_external(call);
        call->start_ns = cupti_now();
    }
    if (wanted(call->domain, call->cbid))
        call_back_for(call, 0);
}

void callback_leave(struct gpu_call *call) {
    uint64_t end_ns = call->start_ns != 0 ? cupti_now() : 0;
    if (wanted(call->domain, call->cbid))
        call_back_for(call, 1);
    if (call->start_ns != 0 && call_recorded(call))
        record_call(call, end_ns);
}

void callback_resource(enum gpu_resource what, struct gpu_context *context, void *handle) {
    if (!wanted(GPU_RESOURCE, what))
        return;
    static _Atomic uint32_t modules;
    bool is_module = what == GPU_MODULE_LOADED || what == GPU_MODULE_UNLOADED;
    struct module_data module = {.id = what == GPU_MODULE_LOADED ? ++modules : modules, .image = ""};
    struct resource_data data = {context, is_module ? NULL : handle, is_module ? &module : NULL};
    call_back(GPU_RESOURCE, what, &data);
}

void callback_sync(const struct gpu_sync *sync) {
    uint32_t cbid = sync->kind == GPU_SYNC_STREAM ? 1 : sync->kind == GPU_SYNC_CONTEXT ? 2 : 0;
    if (cbid == 0 || !wanted(GPU_SYNCHRONIZE, cbid))
        return;
    struct sync_data data = {sync->context, sync->stream};
    call_back(GPU_SYNCHRONIZE, cbid, &data);
}

#define NAMED(function, id, ...) \
    if (cbid == (id))            \
        *name = #function __VA_OPT__("_" #__VA_ARGS__);

EXPORT int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name) {
    if (name == NULL)
        return INVALID_PARAMETER;
    CUPTI_GATE();
    *name = NULL;
    if (domain == GPU_DRIVER) {
        DRIVER_CALLS(NAMED)
    } else if (domain == GPU_RUNTIME) {
        RUNTIME_CALLS(NAMED)
    }
    return *name == NULL ? INVALID_PARAMETER : OK;
}

/* For tests: the beginning or the end of a call that nobody makes. */
EXPORT void fake_cupti_call_back(int site, int domain, uint32_t cbid, uint32_t correlation, const char *name) {
    int result = 0;
    uint64_t client_word = 0;
    struct call_data data = {
        .site = site,
        .function = name,
        .result = site == 0 ? NULL : &result,
        .client_word = &client_word,
        .correlation = correlation,
    };
    call_back(domain, cbid, &data);
}

EXPORT int fake_cupti_subscribed(void) {
    return subscriber.function != NULL;
}

EXPORT size_t fake_cupti_enabled_callbacks(void) {
    size_t count = 0;
    for (int domain = 0; domain < DOMAINS; domain++)
        for (uint32_t cbid = 0; cbid < CALLBACKS; cbid++)
            count += wanted(domain, cbid);
    return count;
}
