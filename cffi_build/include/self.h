/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that records itself: one native thread drains its own region into a spool. And one that asks an agent to.
 */
#ifndef PLN_SELF_H
#define PLN_SELF_H

#include "reader.h"

#pragma GCC visibility push(default)

/* Returns 0, -EBUSY while anybody records this process, or -errno. spool_fd is duplicated. */
int pln_self_start(int spool_fd);

/* Ends the session: *sink tells what was written. Fills at most max losses and returns how many there are,
 * or -ESRCH where no session runs. */
int pln_self_stop(struct pln_sink *sink, struct pln_loss *losses, unsigned max);

/* For who has had an agent begin or end a session of this process: on return torch's operators and CUDA are recorded, or not
 * any more. They follow by themselves, but some time later. */
void pln_sources_follow(void);

#pragma GCC visibility pop

#endif
