/* SPDX-License-Identifier: Apache-2.0
 *
 * Push and pop for interfaces that keep no state of their own between them (NVTX, ITT): a thread's open ranges, each
 * with the domain that its pop will name. A signal handler may push and pop in the middle of either.
 */
#ifndef PLN_RANGE_STACK_H
#define PLN_RANGE_STACK_H

#include "annotation.h"

#define PLN_STACK_NOT_TRACKED (-2) /* as NVTX without a tool: NVTX_NO_PUSH_POP_TRACKING */

/* Returns the level of the range in its domain, from 0; −1 where it found no room (the range is counted as lost). */
int pln_stack_push(const void *domain, const struct pln_annotation *annotation);

/* A push while nobody records. It takes a place only above one that is taken, so that each pop finds its own push. */
int pln_stack_skip(const void *domain);

/* Ends the innermost range of the domain; returns its level, −1 for a pop without a push. */
int pln_stack_pop(const void *domain);

#endif
