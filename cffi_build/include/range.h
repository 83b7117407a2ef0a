/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job calls: ranges, marks, names. Nothing here fails: what cannot be recorded is counted in the region.
 * Begin and end take no lock, allocate nothing and do no I/O once the thread has its ring.
 */
#ifndef PLN_RANGE_H
#define PLN_RANGE_H

#include <stddef.h>

#include "pillion.h"

#pragma GCC visibility push(default)

/* A range between its begin and its end, in the caller's memory. It may end on another thread. */
struct pln_token {
    struct pln_ring *ring;  /* where it began; NULL: it did not, and its end does nothing */
    uint32_t generation;    /* of the region: the token is void in a fork child */
    uint32_t recorded;      /* 0: only tracers asked for it when it began */
    struct pln_range range; /* the record to be; args, value and scope may be set after pln_begin() */
};

/* Makes the region now instead of at the first range. Returns 0, or -errno: recording is unavailable for good. */
int pln_setup(void);

/* Whether somebody wants ranges at the moment. The first call makes the region. */
int pln_active(void);

/* Changes whenever string ids become void: starts at 1, a fork child counts on. */
uint32_t pln_generation(void);

/* The id of a UTF-8 string in this process's region; 0 where it found no room (counted) or is empty. */
uint32_t pln_intern(const char *text, size_t size);

/* The same for a text that comes again and again, wherever it lies: without a lock from the second time on. */
uint32_t pln_intern_cached(const char *text);

/* The same for a call site: *site keeps id and generation, and begins as 0. */
uint32_t pln_intern_site(uint64_t *site, const char *text);

void pln_begin(struct pln_token *token, uint32_t name, uint32_t args, uint32_t source);
void pln_end(struct pln_token *token);

/* A moment with a number. */
void pln_mark(uint32_t name, uint32_t args, uint32_t source, uint64_t value, uint32_t scope);

/* Tells a tracer that a call which launches work begins. range_seq: of its range, which is open already and the innermost
 * of this thread; name: what it is called. A load and a branch while nobody traces. */
void pln_probe_launch(uint32_t range_seq, uint32_t name);

/* The process's own memfd, or -1. It stays the library's. */
int pln_region_fd(void);

#pragma GCC visibility pop

/* For C: the rest of the enclosing block is a range. */
#define PLN_SCOPE(text)                                                  \
    static uint64_t pln_site_;                                           \
    struct pln_token pln_scope_ __attribute__((cleanup(pln_end))) = {0}; \
    if (pln_active())                                                    \
    pln_begin(&pln_scope_, pln_intern_site(&pln_site_, text), 0, PLN_SOURCE_C)

#endif
