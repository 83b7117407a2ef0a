/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI serves one at a time. Who has another profiler in the process use it has ours step aside first.
 */
#ifndef PLN_CUPTI_ASIDE_H
#define PLN_CUPTI_ASIDE_H

#include "pillion.h"

#pragma GCC visibility push(default)

#define PLN_CUPTI_BACK 0    /* ours again, if the other has let go of it */
#define PLN_CUPTI_ASIDE 1   /* and recordings say so */
#define PLN_CUPTI_QUIETLY 2 /* and recordings have what the other records */

/* On return it is so. Waits for calls into CUDA that other threads are in, 20 ms at most, and for work that devices do,
 * 100 ms at most, if CUPTI is in use. */
void pln_cupti_step_aside(int how);

#pragma GCC visibility pop

#endif
