/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into CUDA become ranges: CUPTI calls us at their beginning and at their end, on the thread that makes them.
 */
#ifndef PLN_CUPTI_CALLS_H
#define PLN_CUPTI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Callbacks may be switched on and off: until cupti_calls_begin() they are ignored, so that none begins a call whose end
 * is switched off meanwhile. */
void cupti_calls_prepare(void);

/* From now on calls are recorded, also those in progress; they and activities get this epoch. */
void cupti_calls_begin(uint32_t epoch);

/* No call is recorded any more; those that are open end when they end. */
void cupti_calls_end(void);

/* Whether a thread is in a call that began in this epoch. */
bool cupti_calls_in_flight(void);

/* Whether the state is that of the process that this one was forked from: then nothing may be touched. */
bool cupti_calls_are_foreign(void);

/* CUPTI's callback. */
void cupti_calls_callback(void *user, uint32_t domain, uint32_t id, const void *data);

#endif
