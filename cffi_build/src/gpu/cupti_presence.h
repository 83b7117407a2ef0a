/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this process uses CUDA, and who tells us.
 */
#ifndef PLN_CUPTI_PRESENCE_H
#define PLN_CUPTI_PRESENCE_H

#include <stdbool.h>

/* The process was told to leave CUPTI alone (PILLION_NO_CUDA). */
bool cupti_is_unwanted(void);

/* libcuda will call us, or has done so. */
bool cupti_is_injected(void);

/* Has libcuda call us when it comes; false where the environment has somebody else called, or cannot be changed. */
bool cupti_inject(void);
void cupti_inject_no_more(void);

/* libcuda is there. */
bool cupti_driver_is_loaded(void);

/* So is CUDA's runtime: libcuda is there, or will be at the first call. */
bool cupti_runtime_is_loaded(void);

#endif
