/* SPDX-License-Identifier: Apache-2.0
 *
 * One function and so one location for each static probe; the semaphores that tracers raise.
 */
#include "process.h"

#define SEMAPHORE(probe) unsigned short PLN_SEMAPHORE(probe) __attribute__((section(".probes")))

SEMAPHORE(range);
SEMAPHORE(mark);
SEMAPHORE(thread);

static __attribute__((noinline)) void probe_range(const struct pln_range *record, const char *name, size_t length) {
    PLN_PROBE(range, record, name, length);
}

static __attribute__((noinline)) void probe_mark(const struct pln_range *record, const char *name, size_t length) {
    PLN_PROBE(mark, record, name, length);
}

static __attribute__((noinline)) void probe_thread(const struct pln_range *record, const char *name, size_t length) {
    PLN_PROBE(thread, record, name, length);
}

void pln_probe(const struct pln_range *record) {
    size_t length;
    const char *name = pln_string(record->name, &length);
    if (record->kind == PLN_RANGE && PLN_SEMAPHORE(range))
        probe_range(record, name, length);
    else if (record->kind == PLN_MARK && PLN_SEMAPHORE(mark))
        probe_mark(record, name, length);
    else if (record->kind == PLN_THREAD && PLN_SEMAPHORE(thread))
        probe_thread(record, name, length);
}
