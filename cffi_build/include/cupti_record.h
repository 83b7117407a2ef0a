/* SPDX-License-Identifier: Apache-2.0
 *
 * What CUPTI's activity buffers hold, made into records of ours. The layouts are those of CUPTI 11.8 to 13.5, whose
 * records keep their fields where they are and grow at their ends. One thread at a time.
 */
#ifndef PLN_CUPTI_RECORD_H
#define PLN_CUPTI_RECORD_H

#include <stddef.h>

#include "pillion.h"

#pragma GCC visibility push(default)

#define PLN_CUPTI_MADE 0
#define PLN_CUPTI_UNKNOWN 1 /* a kind that we do not know */
#define PLN_CUPTI_SHORT 2   /* fewer bytes are there than its kind has */
#define PLN_CUPTI_UNTIMED 3 /* the device's driver gave it no time: both are 0 */

/* The versions that the layouts are known of, as cuptiGetVersion() tells them. */
#define PLN_CUPTI_VERSION_MIN 18
#define PLN_CUPTI_VERSION_MAX 130500

/* Reads the record of which room bytes are there. Times in *activity are CUPTI's; records of kinds without times have 0.
 * Returns PLN_CUPTI_*; *activity is whole only with PLN_CUPTI_MADE. version: cuptiGetVersion()'s. */
int pln_cupti_read(const uint8_t *record, size_t room, uint32_t version, struct pln_activity *activity);

/* One moment on CUPTI's clock and on ours. */
struct pln_clock_pair {
    uint64_t cupti_ns;
    uint64_t monotonic_ns;
};

/* A time of CUPTI's on our clock: linear between the pairs around it, at the pace of both clocks before the first and
 * after the last. Pairs are in the order in which they were taken; there is one at least. */
uint64_t pln_clock_map(const struct pln_clock_pair *pairs, unsigned count, uint64_t cupti_ns);

#pragma GCC visibility pop

#endif
