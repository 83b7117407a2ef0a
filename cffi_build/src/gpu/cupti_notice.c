/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_notice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../job/process.h"

#define TEXT_BYTES 512 /* cut beyond */

static void notice(uint32_t scope, uint64_t value, const char *text) {
    if (!pln_active())
        return;
    uint64_t now_ns = pln_now_ns();
    struct pln_range record = {
        .kind = PLN_NOTICE,
        .start_ns = now_ns,
        .end_ns = now_ns,
        .name = pln_intern(text, strlen(text)),
        .source = PLN_SOURCE_CUDA,
        .value = value,
        .scope = scope,
    };
    pln_hand_over((struct pln_record *)&record);
    pln_probe(&record);
}

void cupti_notice(const char *format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    notice(PLN_NOTICE_TEXT, 0, text);
}

void cupti_notice_clock(uint64_t uncertainty_ns) {
    notice(PLN_NOTICE_CLOCK, uncertainty_ns, "CUPTI's times are converted to CLOCK_MONOTONIC");
}
