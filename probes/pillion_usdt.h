/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * The static probes of libpillion.so. Each has one location and a semaphore: while no tracer holds the semaphore up the
 * probe costs nothing, and while one does, ranges are made even if nobody reads the rings.
 *
 *   pillion:range   a range ended     arg1 const struct pln_range *, arg2 const char *name, arg3 size_t name_length
 *   pillion:mark    a mark            the same
 *   pillion:thread  a thread's name   the same
 *
 * The name is UTF-8 and not terminated.
 */
#ifndef PILLION_USDT_H
#define PILLION_USDT_H

#define PLN_SEMAPHORE(probe) pillion_##probe##_semaphore

extern unsigned short PLN_SEMAPHORE(range);
extern unsigned short PLN_SEMAPHORE(mark);
extern unsigned short PLN_SEMAPHORE(thread);

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* The compiler does not know that a tracer reads *record. */
#define PLN_PROBE(probe, record, name, name_length)             \
    do {                                                        \
        __asm__ volatile("" ::: "memory");                      \
        STAP_PROBE3(pillion, probe, record, name, name_length); \
    } while (0)

#endif
