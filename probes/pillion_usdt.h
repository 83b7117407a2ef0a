/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
 *
 * The static probes of libpillion.so. Each has one location and a semaphore: while no tracer holds the semaphore up the
 * probe costs nothing, and while one does, ranges are made even if nobody reads the rings.
 *
 *   pillion:range       a range ended     arg1 const struct pln_range *, arg2 const char *name, arg3 size_t name_length
 *   pillion:mark        a mark            the same
 *   pillion:thread      a thread's name   the same
 *   pillion:notice      a notice          the same
 *   pillion:activity    a device's work   arg1 const struct pln_activity *, the rest is the same
 *   pillion:activities  many at once      arg1 const struct pln_activity *, arg2 size_t count: an array without names
 *   pillion:launch      a launch begins   arg1 uint32_t, seq of its range, the innermost open one; arg2 and arg3 its name
 *
 * The name is UTF-8 and not terminated. It lies in the string log that the record's ids belong to (struct pln_region):
 * the log starts 8 * id + 8 bytes before it, and so a tracer finds the record's other string, too.
 */
#ifndef PILLION_USDT_H
#define PILLION_USDT_H

#define PLN_SEMAPHORE(probe) pillion_##probe##_semaphore

extern unsigned short PLN_SEMAPHORE(range);
extern unsigned short PLN_SEMAPHORE(mark);
extern unsigned short PLN_SEMAPHORE(thread);
extern unsigned short PLN_SEMAPHORE(notice);
extern unsigned short PLN_SEMAPHORE(activity);
extern unsigned short PLN_SEMAPHORE(activities);
extern unsigned short PLN_SEMAPHORE(launch);

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* The compiler does not know that a tracer reads *record. */
#define PLN_PROBE2(probe, record, count)            \
    do {                                            \
        __asm__ volatile("" ::: "memory");          \
        STAP_PROBE2(pillion, probe, record, count); \
    } while (0)

#define PLN_PROBE3(probe, record, name, name_length)            \
    do {                                                        \
        __asm__ volatile("" ::: "memory");                      \
        STAP_PROBE3(pillion, probe, record, name, name_length); \
    } while (0)

#endif
