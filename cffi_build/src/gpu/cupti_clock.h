/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI's clock. Usually it is told to use ours; where it refuses, moments on both clocks are noted while a session runs,
 * and times are converted.
 */
#ifndef PLN_CUPTI_CLOCK_H
#define PLN_CUPTI_CLOCK_H

#include <stdint.h>

/* Before anything else of CUPTI is enabled. */
void cupti_clock_begin(void);

/* Notes another moment; before records are read, so that what has happened lies between two moments. */
void cupti_clock_tick(void);

/* A time of a record on our clock; 0 stays 0, which says that there is none. */
uint64_t cupti_clock_map(uint64_t cupti_ns);

/* Says how wrong times may be, if that has grown since it was last said. */
void cupti_clock_tell(void);

#endif
