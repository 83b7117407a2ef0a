/* SPDX-License-Identifier: Apache-2.0
 *
 * The static probes: one function and so one location for each, and the semaphores that tracers raise.
 *
 * Such a function is a nop and a ret. It may not keep anything below the stack pointer: where the nop has five bytes, the
 * kernel makes it a call (since Linux 6.18), which overwrites what is there. tests/native looks at the machine code.
 */
#include "process.h"

#define SEMAPHORE(probe) unsigned short PLN_SEMAPHORE(probe) __attribute__((section(".probes")))

SEMAPHORE(range);
SEMAPHORE(mark);
SEMAPHORE(thread);
SEMAPHORE(notice);
SEMAPHORE(activity);
SEMAPHORE(activities);
SEMAPHORE(launch);

#define NOINLINE __attribute__((noinline))

static NOINLINE void probe_range(const void *record, const char *name, size_t length) {
    PLN_PROBE3(range, record, name, length);
}

static NOINLINE void probe_mark(const void *record, const char *name, size_t length) {
    PLN_PROBE3(mark, record, name, length);
}

static NOINLINE void probe_thread(const void *record, const char *name, size_t length) {
    PLN_PROBE3(thread, record, name, length);
}

static NOINLINE void probe_notice(const void *record, const char *name, size_t length) {
    PLN_PROBE3(notice, record, name, length);
}

static NOINLINE void probe_activity(const void *record, const char *name, size_t length) {
    PLN_PROBE3(activity, record, name, length);
}

static NOINLINE void probe_activities(const void *records, size_t count) {
    PLN_PROBE2(activities, records, count);
}

static NOINLINE void probe_launch(uint32_t range_seq, const char *name, size_t length) {
    PLN_PROBE3(launch, range_seq, name, length);
}

/* Tracers change a semaphore at any time; whoever misses the change by a record misses that record. */
static inline bool traced(const unsigned short *semaphore) {
    return PLN_UNLIKELY(__atomic_load_n(semaphore, __ATOMIC_RELAXED) != 0);
}

static NOINLINE void tell(const void *record, void (*fire)(const void *, const char *, size_t)) {
    size_t length;
    const char *name = pln_string(((const struct pln_range *)record)->name, &length);
    fire(record, name, length);
}

void pln_probe(const void *record) {
    static const struct {
        const unsigned short *semaphore;
        void (*fire)(const void *, const char *, size_t);
    } probes[PLN_KINDS] = {
        [PLN_RANGE] = {&PLN_SEMAPHORE(range), probe_range},
        [PLN_MARK] = {&PLN_SEMAPHORE(mark), probe_mark},
        [PLN_THREAD] = {&PLN_SEMAPHORE(thread), probe_thread},
        [PLN_NOTICE] = {&PLN_SEMAPHORE(notice), probe_notice},
        [PLN_ACTIVITY] = {&PLN_SEMAPHORE(activity), probe_activity},
    };
    uint16_t kind = ((const struct pln_record *)record)->kind;
    if (kind < PLN_KINDS && probes[kind].fire != NULL && traced(probes[kind].semaphore))
        tell(record, probes[kind].fire);
}

void pln_probe_batch(const struct pln_activity *records, size_t count) {
    if (traced(&PLN_SEMAPHORE(activities)))
        probe_activities(records, count);
    if (traced(&PLN_SEMAPHORE(activity)))
        for (size_t i = 0; i < count; i++)
            tell(&records[i], probe_activity);
}

static NOINLINE void tell_launch(uint32_t range_seq, uint32_t name) {
    if (pln_setup() != 0)
        return;
    size_t length;
    const char *text = pln_string(name, &length);
    probe_launch(range_seq, text, length);
}

void pln_probe_launch(uint32_t range_seq, uint32_t name) {
    if (traced(&PLN_SEMAPHORE(launch)))
        tell_launch(range_seq, name);
}
