/* SPDX-License-Identifier: Apache-2.0
 *
 * How a collector, or another thread of the job, gets the attention of the job's control thread.
 */
#ifndef PLN_BELL_H
#define PLN_BELL_H

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pillion.h"

static inline void pln_ring_bell(struct pln_region *region) {
    /* Release, pairs with the acquire in control.c: who hears it sees what was changed before. Not a private futex: the
     * waiter may be in another process. */
    __atomic_fetch_add(&region->bell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &region->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
