/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA that comes to a process while it has itself recorded.
 */
#ifndef PLN_CUPTI_AWAIT_H
#define PLN_CUPTI_AWAIT_H

#include "pillion.h"

#pragma GCC visibility push(default)

/* Before a session: CUDA that is there is recorded, and libcuda that comes later calls us before its first call returns.
 * For that the environment has CUDA_INJECTION64_PATH until the session is over, where it was not set. */
void pln_cupti_await(void);
void pln_cupti_await_no_more(void);

#pragma GCC visibility pop

#endif
