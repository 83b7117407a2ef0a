/* SPDX-License-Identifier: Apache-2.0
 *
 * Push and pop for interfaces that keep no state of their own between them (NVTX, ITT): a thread's open ranges, each
 * with the domain that its pop will name.
 */
#ifndef PLN_RANGE_STACK_H
#define PLN_RANGE_STACK_H

#include "range.h"

/* What goes into the record besides the name. */
struct range_details {
    uint32_t source;
    uint32_t domain; /* string id of the domain's name, 0 for the default domain: the record's args */
    uint32_t category;
    uint64_t payload;
};

/* Returns the level of the range in its domain, from 0; −1 where it found no room (the range is counted as lost). */
int pln_stack_push(const void *domain, uint32_t name, const struct range_details *details);

/* Ends the innermost range of the domain; returns its level, −1 for a pop without a push. */
int pln_stack_pop(const void *domain);

#endif
