/* SPDX-License-Identifier: Apache-2.0
 *
 * The record path: begin, end, mark. No malloc, no lock, no I/O, apart from a thread's first range and its first one in
 * a session. One ring has one producer, so most stores here are plain; the order that matters is said where it matters.
 */
#include "process.h"

#include <string.h>

#include "ticks.h"

#define INLINE static inline __attribute__((always_inline))

void pln_lose(struct pln_ring *ring, uint32_t kind) {
    pln_count(&ring->lost[kind]);
}

/* Between enter and leave the ring is the caller's alone. Fails inside a signal handler that interrupted such a stretch,
 * and counts the record as lost. */
INLINE bool enter(struct pln_ring *ring, uint32_t kind) {
    if (PLN_UNLIKELY(ring->busy)) {
        pln_lose(ring, kind);
        return false;
    }
    /* Relaxed: for signal handlers program order is enough, and a reader that comes too early takes the range itself. */
    __atomic_store_n(&ring->busy, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PLN_UNLIKELY(ring->session != __atomic_load_n(&pln_process.region->session, __ATOMIC_RELAXED)))
        pln_thread_announce(ring);
    return true;
}

INLINE void leave(struct pln_ring *ring) {
    __atomic_store_n(&ring->busy, 0, __ATOMIC_RELEASE); /* pairs with the reader's acquire when it ends a session */
}

/* The consumer is late. If it is gone, stop: nobody will ever take these records. */
static void check_lease(void) {
    struct pln_region *region = pln_process.region;
    if (pln_now_ns() > __atomic_load_n(&region->lease_ns, __ATOMIC_RELAXED) + PLN_LEASE_NS)
        __atomic_store_n(&region->recording, 0, __ATOMIC_RELAXED);
}

/* Whether the ring has a slot at all; else the record counts as lost. */
static __attribute__((noinline)) bool look_for_room(struct pln_ring *ring, uint32_t kind) {
    /* Acquire, pairs with the release in drain.c: slots are free. */
    ring->limit = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) + pln_process.ring_mask + 1;
    if (ring->head < ring->limit)
        return true;
    pln_lose(ring, kind);
    check_lease();
    return false;
}

/* The next slot of a ring, or NULL: the record counts as lost. */
INLINE struct pln_record *reserve(struct pln_ring *ring, uint32_t kind) {
    if (PLN_UNLIKELY(ring->head >= ring->limit) && !look_for_room(ring, kind))
        return NULL;
    return &pln_ring_records(ring)[ring->head & pln_process.ring_mask];
}

INLINE void commit(struct pln_ring *ring) {
    /* Release, pairs with the acquire in drain.c: the record is whole. */
    __atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
}

static void store(struct pln_ring *ring, const struct pln_record *record) {
    struct pln_record *slot = reserve(ring, record->kind);
    if (slot == NULL)
        return;
    *slot = *record;
    commit(ring);
}

void pln_store(struct pln_ring *ring, const struct pln_range *record) {
    store(ring, (const struct pln_record *)record);
}

/* Times of a ring never go back: readers build trees of them. */
INLINE uint64_t ring_now_ns(struct pln_ring *ring) {
    uint64_t now_ns = pln_ticks_now_ns();
    if (PLN_UNLIKELY(now_ns < ring->last_ns && ring->last_ns - now_ns < PLN_LAG_NS))
        return ring->last_ns;
    ring->last_ns = now_ns;
    return now_ns;
}

static inline struct pln_ring *ring_of_thread(void) {
    struct pln_ring *ring = pln_ring;
    return PLN_LIKELY(ring != NULL) ? ring : pln_ring_claim();
}

/* The entry is stored before depth says that it is there: eBPF on this thread and a reader on another trust depth. */
static inline void publish(struct pln_ring *ring, const struct pln_range *range) {
    uint32_t depth = range->depth;
    if (PLN_LIKELY(depth < PLN_OPEN_MAX)) {
        struct pln_open *open = &pln_ring_open(ring)[depth];
        open->start_ns = range->start_ns;
        open->name = range->name;
    }
    /* Release, so that who sees the seq sees its start and name. */
    __atomic_store_n(pln_open_seq(ring, depth), range->seq, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->depth, depth + 1, __ATOMIC_RELEASE);
}

INLINE void open_range(struct pln_ring *ring, struct pln_token *token) {
    struct pln_range *range = &token->range;
    uint32_t depth = pln_pop_closed(ring);
    if (PLN_UNLIKELY(depth > PLN_DEPTH_MAX)) {
        pln_lose(ring, PLN_RANGE);
        return;
    }
    ring->seq += PLN_UNLIKELY(ring->seq == UINT32_MAX) ? 2 : 1; /* 0 means closed */
    token->ring = ring;
    token->generation = pln_process.generation;
    token->recorded = pln_records();
    range->kind = PLN_RANGE;
    range->flags = 0;
    range->tid = range->end_tid = ring->tid;
    range->seq = ring->seq;
    range->parent = depth > 0 ? *pln_open_seq(ring, depth - 1) : 0;
    range->depth = (uint16_t)depth;
    range->start_ns = ring_now_ns(ring);
    publish(ring, range);
}

/* This and pln_end_begun() are functions of their own so that a range nobody wants saves no registers. */
PLN_HOT __attribute__((noinline)) void pln_begin_wanted(struct pln_token *token, uint32_t name, uint32_t args,
                                                        uint32_t source) {
    struct pln_ring *ring = ring_of_thread();
    if (PLN_UNLIKELY(ring == NULL) || !enter(ring, PLN_RANGE))
        return;
    struct pln_range *range = &token->range;
    range->name = name;
    range->args = args;
    range->source = (uint16_t)source;
    range->value = 0;
    range->scope = range->reserved = 0;
    open_range(ring, token);
    leave(ring);
}

void pln_begin(struct pln_token *token, uint32_t name, uint32_t args, uint32_t source) {
    token->ring = NULL;
    if (PLN_UNLIKELY(pln_wanted()))
        pln_begin_wanted(token, name, args, source);
}

static __attribute__((noinline)) void tell_tracer(struct pln_range range, uint64_t end_ns) {
    range.end_ns = end_ns;
    pln_probe(&range);
}

/* What is new goes straight into the slot: in the token, the copy would wait for it. */
INLINE void report(struct pln_ring *ring, struct pln_token *token, uint64_t end_ns) {
    struct pln_range *range = &token->range;
    if (PLN_UNLIKELY(ring->tid != range->tid)) {
        range->end_tid = ring->tid;
        range->flags = PLN_ASYNC;
    }
    struct pln_range *slot = PLN_LIKELY(token->recorded) ? (struct pln_range *)reserve(ring, PLN_RANGE) : NULL;
    if (PLN_LIKELY(slot != NULL)) {
        *slot = *range;
        slot->end_ns = end_ns;
        commit(ring);
    }
    if (PLN_UNLIKELY(PLN_SEMAPHORE(range)))
        tell_tracer(*range, end_ns);
}

/* No ring, or one that a signal handler interrupted: the range still leaves the stack of open ones. */
static void end_unreported(struct pln_token *token) {
    pln_close(token->ring, token->range.depth, token->range.seq);
    token->ring = NULL;
}

/* The innermost range of its own thread is closed without a barrier, which took 8 ns of 38. A reader that closes it in the
 * same moment finds the record, or ends its session before the record is there: it has one of the two in either case
 * (session.c). */
INLINE bool close_entry(struct pln_ring *origin, struct pln_ring *ring, const struct pln_range *range) {
    uint32_t depth = range->depth;
    if (PLN_UNLIKELY(ring != origin || ring->depth != depth + 1u))
        return pln_close(origin, depth, range->seq);
    uint32_t *seq = pln_open_seq(ring, depth);
    if (PLN_UNLIKELY(*seq != range->seq))
        return false;
    __atomic_store_n(&ring->depth, depth, __ATOMIC_RELEASE); /* pairs with the reader's acquire */
    __atomic_store_n(seq, 0, __ATOMIC_RELAXED);
    return true;
}

/* Order: busy, depth, close, record. A reader that ends its session sees either the entry open, and closes it, or busy,
 * and waits for the record; eBPF sees the enclosing range as soon as this one is not there any more. */
PLN_HOT __attribute__((noinline)) void pln_end_begun(struct pln_token *token) {
    struct pln_ring *origin = token->ring;
    if (PLN_UNLIKELY(token->generation != pln_process.generation)) {
        token->ring = NULL;
        return;
    }
    struct pln_ring *ring = ring_of_thread();
    if (PLN_UNLIKELY(ring == NULL) || !enter(ring, PLN_RANGE)) {
        end_unreported(token);
        return;
    }
    uint64_t end_ns = ring_now_ns(ring);
    if (PLN_LIKELY(close_entry(origin, ring, &token->range)))
        report(ring, token, end_ns);
    pln_pop_closed(ring);
    token->ring = NULL;
    leave(ring);
}

void pln_end(struct pln_token *token) {
    if (PLN_UNLIKELY(token->ring != NULL))
        pln_end_begun(token);
}

/* A record of one moment: a mark, or the name of any thread. */
static void write_moment(uint32_t kind, uint32_t tid, struct pln_range moment) {
    struct pln_ring *ring = ring_of_thread();
    if (PLN_UNLIKELY(ring == NULL) || !enter(ring, kind))
        return;
    uint32_t depth = pln_pop_closed(ring);
    moment.kind = (uint16_t)kind;
    moment.tid = tid != 0 ? tid : ring->tid;
    moment.start_ns = moment.end_ns = ring_now_ns(ring);
    moment.parent = depth > 0 ? *pln_open_seq(ring, depth - 1) : 0;
    moment.depth = (uint16_t)depth;
    moment.end_tid = ring->tid;
    if (pln_records())
        pln_store(ring, &moment);
    pln_probe(&moment);
    leave(ring);
}

void pln_mark(uint32_t name, uint32_t args, uint32_t source, uint64_t value, uint32_t scope) {
    if (PLN_LIKELY(!pln_wanted() && !PLN_SEMAPHORE(mark)))
        return;
    write_moment(
        PLN_MARK, 0,
        (struct pln_range){.name = name, .args = args, .source = (uint16_t)source, .value = value, .scope = scope});
}

void pln_record_thread(uint32_t tid, uint32_t name) {
    write_moment(PLN_THREAD, tid, (struct pln_range){.name = name});
}

void pln_submit(struct pln_range range) {
    struct pln_ring *ring = pln_wanted() ? ring_of_thread() : NULL;
    if (ring == NULL || !enter(ring, PLN_RANGE))
        return;
    range.kind = PLN_RANGE;
    range.tid = range.tid != 0 ? range.tid : ring->tid;
    range.flags = range.tid == ring->tid ? 0 : PLN_ASYNC;
    range.end_tid = ring->tid;
    if (pln_records())
        pln_store(ring, &range);
    if (PLN_SEMAPHORE(range))
        pln_probe(&range);
    leave(ring);
}

/* ---- what a source hands over: not on the record path ---- */

#define ROOM_WAIT_NS 100000000u  /* four drains of an agent */
#define ROOM_PAUSE_NS 1000000u

/* Waits for room. A consumer that did not come once is not waited for again until it comes. */
static void await_room(const struct pln_ring *ring) {
    static uint64_t tail_in_vain = UINT64_MAX;
    const struct timespec pause = {.tv_nsec = ROOM_PAUSE_NS};
    uint64_t deadline_ns = 0;
    for (;;) {
        /* Relaxed: store() looks again, with the order that matters. */
        uint64_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
        if (PLN_LIKELY(ring->head - tail <= pln_process.ring_mask) || tail == tail_in_vain)
            return;
        uint64_t now_ns = pln_now_ns();
        if (deadline_ns == 0)
            deadline_ns = now_ns + ROOM_WAIT_NS;
        if (now_ns >= deadline_ns) {
            tail_in_vain = tail;
            return;
        }
        nanosleep(&pause, NULL);
    }
}

void pln_hand_over(struct pln_record *record) {
    struct pln_ring *ring = ring_of_thread();
    if (ring == NULL)
        return;
    await_room(ring);
    if (!enter(ring, record->kind))
        return;
    record->tid = ring->tid;
    if (pln_records())
        store(ring, record);
    leave(ring);
}
