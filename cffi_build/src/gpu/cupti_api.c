/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_api.h"

#include <dlfcn.h>

#include "cupti_notice.h"
#include "cupti_record.h"

struct cupti_api cupti_api;

struct symbol {
    const char *name;
    void **place;
    const char *without; /* what is missing without it; NULL: everything */
};

/* A job with CUDA graphs may crash when CUPTI comes back after an earlier one was finalized, that of before CUDA 12.6: so
 * torch's profiler does not do it there either. It is unsubscribed, and stays in the process. */
#define FINALIZES_SINCE 24u

#define SYMBOL(name, member, without) {name, (void **)&cupti_api.member, without}

static const struct symbol symbols[] = {
    SYMBOL("cuptiGetVersion", get_version, NULL),
    SYMBOL("cuptiSubscribe", subscribe, NULL),
    SYMBOL("cuptiUnsubscribe", unsubscribe, NULL),
    SYMBOL("cuptiEnableDomain", enable_domain, NULL),
    SYMBOL("cuptiActivityRegisterCallbacks", register_callbacks, NULL),
    SYMBOL("cuptiActivityEnable", enable, NULL),
    SYMBOL("cuptiActivityDisable", disable, NULL),
    SYMBOL("cuptiActivityFlushAll", flush_all, NULL),
    SYMBOL("cuptiActivityGetNextRecord", next_record, NULL),
    SYMBOL("cuptiEnableCallback", enable_callback, "work of contexts that are destroyed may be missing"),
    SYMBOL("cuptiActivityRegisterTimestampCallback", register_clock, "times are converted"),
    SYMBOL("cuptiGetTimestamp", timestamp, "its clock is taken to be the system's"),
    SYMBOL("cuptiActivityGetNumDroppedRecords", dropped, "activities that it drops are not counted"),
    SYMBOL("cuptiSetThreadIdType", set_thread_ids, "threads in the attributes of overhead are pthread's numbers"),
    SYMBOL("cuptiFinalize", finalize, "it stays in the process when a recording ends"),
    SYMBOL("cuptiGetCallbackName", callback_name, "calls that only ask are recorded too"),
};

static bool resolve(void *library) {
    bool whole = true;
    for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        const struct symbol *symbol = &symbols[i];
        *symbol->place = dlsym(library, symbol->name);
        if (*symbol->place != NULL)
            continue;
        if (symbol->without == NULL)
            cupti_notice("nothing of CUDA is recorded: this CUPTI has no %s", symbol->name);
        else
            cupti_notice("this CUPTI has no %s: %s", symbol->name, symbol->without);
        whole &= symbol->without != NULL;
    }
    return whole;
}

static bool knows_version(void) {
    int result = cupti_api.get_version(&cupti_api.version);
    if (result != CUPTI_SUCCESS) {
        cupti_notice("nothing of CUDA is recorded: cuptiGetVersion failed with %d", result);
        return false;
    }
    if (cupti_api.version < PLN_CUPTI_VERSION_MIN) {
        cupti_notice("nothing of CUDA is recorded: CUPTI's version %u is older than %u, that of CUDA 11.8",
                     cupti_api.version, PLN_CUPTI_VERSION_MIN);
        return false;
    }
    if (cupti_api.version < FINALIZES_SINCE)
        cupti_api.finalize = NULL;
    if (cupti_api.version > PLN_CUPTI_VERSION_MAX)
        cupti_notice("CUPTI's version %u is newer than what is known (%u): of its records the known part is read",
                     cupti_api.version, PLN_CUPTI_VERSION_MAX);
    return true;
}

/* Each session is told what is missing. The handle is kept: whatever the job unloads, the functions stay. */
bool cupti_api_load(void) {
    static void *library;
    if (library == NULL)
        library = cupti_library_open();
    return library != NULL && resolve(library) && knows_version();
}
