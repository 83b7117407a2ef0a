/* SPDX-License-Identifier: Apache-2.0
 *
 * Subscribing to CUPTI, and leaving it. CUPTI leaves the process best at the end of a call into CUDA, when the call is
 * out of CUPTI's hands; from another thread only while no call is going on.
 */
#ifndef PLN_CUPTI_DETACH_H
#define PLN_CUPTI_DETACH_H

#include <stdbool.h>

/* Returns a CUptiResult. Where CUPTI has not been left yet, it stays. */
int cupti_attach(void **subscriber);

/* Leaves as soon as that is possible; waits a while for it. */
void cupti_detach(void);

/* Where that has not been possible: leaves in the middle of calls, so that another can subscribe. */
void cupti_detach_now(void);

/* At the end of a thread's outermost call. */
void cupti_detach_at_exit(void);

#endif
