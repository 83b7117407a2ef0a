/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing blocks to a spool: a regular file or memfd that only grows by whole blocks.
 */
#ifndef PLN_SPOOL_H
#define PLN_SPOOL_H

#include <stddef.h>

#include "pillion.h"

#pragma GCC visibility push(default)

/* Appends one block: `block` (its magic, version and written_ns are filled in) and block->length bytes of payload.
 * Returns 0 or -errno; after an error the file ends with its last whole block, as before the call. */
int pln_spool_block(int fd, const struct pln_block *block, const void *payload);

/* Appends a JSON block. */
int pln_spool_json(int fd, const char *json, size_t size);

#pragma GCC visibility pop

#endif
