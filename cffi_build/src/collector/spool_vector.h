/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose payload lies in several places.
 */
#ifndef PLN_SPOOL_VECTOR_H
#define PLN_SPOOL_VECTOR_H

#include <sys/uio.h>

#include "spool.h"

#define PLN_SPOOL_PIECES 256 /* well under IOV_MAX */

/* As pln_spool_block(); the pieces add up to block->length, and there are at most PLN_SPOOL_PIECES. */
int pln_spool_pieces(int fd, const struct pln_block *block, const struct iovec *pieces, unsigned count);

#endif
