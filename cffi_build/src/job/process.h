/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the producer's side share: the process's own region and the ring of the calling thread.
 */
#ifndef PLN_PROCESS_H
#define PLN_PROCESS_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "../clock.h"
#include "pillion.h"
#include "pillion_usdt.h"
#include "range.h"

/* What the files share stays among them: reached without a detour over the table for other libraries. */
#pragma GCC visibility push(hidden)

#define PLN_LIKELY(x) __builtin_expect(!!(x), 1)
#define PLN_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define PLN_HOT __attribute__((hot)) /* what a record takes lies together: a job's own code leaves it little cache */

#define PLN_RING_MAX 65536
#define PLN_DEPTH_MAX 65535 /* pln_range.depth has 16 bits */

/* Error checking, so that a signal handler that lands in its own thread's critical section is told, not deadlocked. */
#define PLN_MUTEX_INITIALIZER PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/* Written under pln_process_mutex before `recording` is published; constant from then until a fork. What the record path
 * reads is in one cache line. */
struct pln_process {
    /* The region's recording word; before there is a region pln_not_set_up, so that the first range takes the slow path
     * that makes it; where there can be none a constant 0. Release store, pairs with pln_records(). */
    const uint32_t *recording;
    struct pln_region *region;
    char *strings;
    uint64_t ring_mask;
    uint64_t ring_stride;
    uint32_t generation;
    int error; /* set once: recording is unavailable for good */
    uint64_t header_bytes; /* mapped at region: the header and the string log */
    int fd;
    dev_t device; /* what fd was when we opened it */
    ino_t inode;
} __attribute__((aligned(64)));

extern struct pln_process pln_process;
extern pthread_mutex_t pln_process_mutex;

extern const uint32_t pln_not_set_up; /* 1 */

/* eBPF finds the ring of a thread here, at region.tls_offset from the thread pointer. initial-exec makes that offset
 * the same in every thread; eight bytes fit into the space that the loader keeps for late libraries. */
extern __thread struct pln_ring *pln_ring __attribute__((tls_model("initial-exec")));

/* Whether records go into rings. Acquire, pairs with the release store of pln_process.recording: whoever sees the region's
 * word sees pln_process. The word itself is relaxed: a session begins and ends when the thread gets to know it. */
static inline uint32_t pln_records(void) {
    return __atomic_load_n(__atomic_load_n(&pln_process.recording, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
}

/* Whether rings or a tracer want ranges: the whole cost of a range that nobody wants. */
static inline bool pln_wanted(void) {
    return (pln_records() | __atomic_load_n(&PLN_SEMAPHORE(range), __ATOMIC_RELAXED)) != 0;
}

/* pln_active() without a call while nobody wants ranges, and without one while they are recorded. */
static inline bool pln_is_active(void) {
    if (PLN_LIKELY(!pln_wanted()))
        return false;
    bool is_set_up = __atomic_load_n(&pln_process.recording, __ATOMIC_ACQUIRE) != &pln_not_set_up;
    return (PLN_LIKELY(is_set_up) && PLN_LIKELY(pln_process.error == 0)) || pln_active();
}

/* Counts so that a signal handler on the same thread cannot fall between load and store. Other threads only read. */
static inline void pln_count(uint64_t *counter) {
#if defined(__x86_64__)
    __asm__("incq %0" : "+m"(*counter));
#else
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#endif
}

static inline struct pln_open *pln_ring_open(struct pln_ring *ring) {
    return (struct pln_open *)((char *)ring + PLN_OPEN_OFFSET);
}

static inline struct pln_record *pln_ring_records(struct pln_ring *ring) {
    return (struct pln_record *)((char *)ring + PLN_RING_HEADER);
}

/* Open ranges beyond PLN_OPEN_MAX keep their seq in private memory that is mapped right behind the ring: enough to give
 * their children a parent, at no cost to threads that never nest so deep. */
#define PLN_DEEP_BYTES ((uint64_t)(PLN_DEPTH_MAX + 1) * sizeof(uint32_t))

static inline uint32_t *pln_open_seq(struct pln_ring *ring, uint32_t depth) {
    if (PLN_LIKELY(depth < PLN_OPEN_MAX))
        return &pln_ring_open(ring)[depth].seq;
    return (uint32_t *)((char *)ring + pln_process.ring_stride) + depth;
}

/* Drops the innermost entries that are closed already; returns the depth. Only the ring's own thread calls it.
 * Release, pairs with the reader's acquire: entries below depth are whole. */
static inline uint32_t pln_pop_closed(struct pln_ring *ring) {
    uint32_t depth = ring->depth;
    while (PLN_UNLIKELY(depth > 0 && __atomic_load_n(pln_open_seq(ring, depth - 1), __ATOMIC_RELAXED) == 0))
        __atomic_store_n(&ring->depth, --depth, __ATOMIC_RELEASE);
    return depth;
}

/* Closes an open range. True for exactly one caller, who reports it: its thread, another thread, a reader that ends
 * its session. A full barrier, so that a reader who finds the entry closed sees the busy flag set before it. The innermost
 * range of its own thread does without, see record.c. */
static inline bool pln_close(struct pln_ring *ring, uint32_t depth, uint32_t seq) {
    return __atomic_compare_exchange_n(pln_open_seq(ring, depth), &seq, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* record.c. pln_begin() for a caller who knows that ranges are wanted and has set token->ring to NULL, pln_end() where it is
 * not NULL. */
void pln_begin_wanted(struct pln_token *token, uint32_t name, uint32_t args, uint32_t source);
void pln_end_begun(struct pln_token *token);

/* record.c. Writes a record or counts it as lost. */
void pln_store(struct pln_ring *ring, const struct pln_range *record);
void pln_lose(struct pln_ring *ring, uint32_t kind);

/* record.c. The name of any thread of the process. */
void pln_record_thread(uint32_t tid, uint32_t name);

/* record.c. A range that is over already, with all that its caller knows of it, among no others: seq, parent and depth
 * are 0. Without a tid it is of this thread. */
void pln_submit(struct pln_range range);

/* record.c. Writes an activity or a notice, from a source's start(), tick() or stop(): waits a while for the consumer rather
 * than lose it. The tid becomes the caller's. */
void pln_hand_over(struct pln_record *record);

/* region.c. Counts a record that the region to come will report as lost, if one comes. */
void pln_lose_without_region(void);

/* region.c. Both for the growth of the memfd. */
bool pln_region_fd_is_ours(void);
int pln_region_grow(int fd, uint64_t size_bytes);

/* thread.c. Gives the calling thread a ring, or counts a record as lost and returns NULL; NULL also if nobody wants
 * it. */
struct pln_ring *pln_ring_claim(void);

/* thread.c. In its first turn through a ring a thread meets pages that do not exist yet: 4 us for each, 65 ns a record on the
 * machine of the measurements. This makes those that come next, from a thread that nobody waits for. */
void pln_rings_make_pages(void);

/* Writes the thread's name into an entered ring, once a session. */
void pln_thread_announce(struct pln_ring *ring);

/* intern.c */
int pln_strings_init(void);
const char *pln_string(uint32_t id, size_t *size);

/* Around a fork: prepare takes the locks, parent gives them back, forget starts the child afresh. */
void pln_threads_forget(void);
void pln_strings_prepare(void);
void pln_strings_parent(void);
void pln_strings_forget(void);
void pln_self_prepare(void);
void pln_self_parent(void);
void pln_self_forget(void);

/* announce.c. Hands the region to an agent, or tells it with fd -1 that there can be none; false where none listens. */
bool pln_announce(int fd, uint32_t pid);

/* usdt.c. Tells a tracer of a record of any kind that rings hold. */
void pln_probe(const void *record);

/* The same for many at once: of the batch, and of each of its records where a tracer wants them one by one. */
void pln_probe_batch(const struct pln_activity *records, size_t count);

#pragma GCC visibility pop

#endif
