/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUPTI collector has to say to the user: PLN_NOTICE records.
 */
#ifndef PLN_CUPTI_NOTICE_H
#define PLN_CUPTI_NOTICE_H

#include <stdint.h>

__attribute__((format(printf, 1, 2))) void cupti_notice(const char *format, ...);

/* By how much times may be wrong. */
void cupti_notice_clock(uint64_t uncertainty_ns);

#endif
