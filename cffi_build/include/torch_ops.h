/* SPDX-License-Identifier: Apache-2.0
 *
 * torch's operators as ranges, through RecordFunction's global callbacks: every thread, autograd's and workers' included,
 * without a line of torch's headers.
 */
#ifndef PLN_TORCH_OPS_H
#define PLN_TORCH_OPS_H

#include <stddef.h>

#include "pillion.h"

#pragma GCC visibility push(default)

/* From now on operators are recorded whenever somebody records. path: the libtorch_cpu.so that the process has loaded.
 * Returns 0; -ENOENT where the library is not loaded; -ENOSYS where it lacks a symbol, and then *missing names it. */
int pln_torch_start(const char *path, const char **missing);

#pragma GCC visibility pop

#endif
