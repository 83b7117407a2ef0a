/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_activities.h"

#include "cupti_api.h"
#include "cupti_buffers.h"
#include "cupti_notice.h"

/* Not the calls (kinds 4, 5 and 48), which the callbacks tell, nor whole graphs (51), which would hide their kernels. */
static const uint8_t kinds[] = {8, 9, 11, 10, 1, 22, 2, 38, 17, 39, 49, 36, 25};

static uint64_t enabled; /* bit per kind */

static void enable_kinds(void) {
    for (unsigned i = 0; i < sizeof kinds; i++) {
        int result = cupti_api.enable(kinds[i]);
        if (result == CUPTI_SUCCESS)
            enabled |= 1ull << kinds[i];
        else
            cupti_notice("CUPTI refuses activities of kind %u with %d: they are not recorded", kinds[i], result);
    }
}

void cupti_activities_begin(void) {
    enabled = 0;
    int result = cupti_buffers_open() ? CUPTI_SUCCESS : -1;
    if (result == CUPTI_SUCCESS)
        result = cupti_api.register_callbacks(cupti_buffers_request, cupti_buffers_complete);
    cupti_forget_dropped();
    if (result == CUPTI_SUCCESS)
        enable_kinds();
    else
        cupti_notice("no work of CUDA devices is recorded, only calls: CUPTI got no buffers (%d)", result);
}

void cupti_activities_end(void) {
    for (unsigned kind = 0; kind < 64; kind++)
        if (enabled & 1ull << kind)
            (void)cupti_api.disable(kind);
}
