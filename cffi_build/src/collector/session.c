/* SPDX-License-Identifier: Apache-2.0
 *
 * Being a region's consumer: taking it, keeping it, letting it go, and what was lost meanwhile.
 */
#define _GNU_SOURCE
#include "region_reader.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../bell.h"
#include "../clock.h"

#define STRAGGLERS_NS 20000000 /* how long the end of a session waits for producers in the middle of a record */

/* A pid means something only to a consumer of the same kind: an agent and a job may see different pid namespaces. */
static bool is_gone(const struct pln_region *region, uint32_t pid, uint32_t kind, uint64_t now_ns) {
    uint64_t lease_ns = __atomic_load_n(&region->lease_ns, __ATOMIC_RELAXED);
    if (pid == 0 || now_ns > lease_ns + PLN_LEASE_NS)
        return true;
    return __atomic_load_n(&region->consumer_kind, __ATOMIC_RELAXED) == kind && pid <= INT32_MAX &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void start_ring(struct ring_reader *ring, bool from_creation, uint64_t capacity) {
    ring->head = __atomic_load_n(&ring->ring->head, __ATOMIC_ACQUIRE); /* pairs with the release in record.c */
    ring->tail = from_creation && ring->head <= capacity ? 0 : ring->head;
    ring->end = UINT64_MAX;
    pln_reader_give_back(ring, ring->tail);
    for (unsigned kind = 0; kind < PLN_KINDS; kind++)
        ring->lost_before[kind] = from_creation ? 0 : __atomic_load_n(&ring->ring->lost[kind], __ATOMIC_RELAXED);
}

/* Puts this process in the place of a consumer that is gone, whose pid it notes. */
static bool take(struct pln_region *region, uint32_t consumer_kind, uint64_t now_ns, uint32_t *previous) {
    *previous = __atomic_load_n(&region->consumer_pid, __ATOMIC_RELAXED);
    /* Acquire, pairs with the release in let_go(): the last consumer's tails come before ours. */
    return is_gone(region, *previous, consumer_kind, now_ns) &&
           __atomic_compare_exchange_n(&region->consumer_pid, previous, (uint32_t)getpid(), false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void let_go(struct pln_region *region) {
    __atomic_store_n(&region->consumer_pid, 0, __ATOMIC_RELEASE); /* pairs with the acquire in take() */
}

int pln_reader_decline(pln_reader *reader) {
    uint32_t previous;
    if (!take(reader->region, PLN_CONSUMER_AGENT, pln_now_ns(), &previous))
        return -EBUSY;
    __atomic_store_n(&reader->region->recording, 0, __ATOMIC_RELAXED);
    pln_ring_bell(reader->region);
    let_go(reader->region);
    return 0;
}

int pln_reader_begin(pln_reader *reader, uint32_t consumer_kind) {
    struct pln_region *region = reader->region;
    uint64_t now_ns = pln_now_ns();
    uint32_t previous;
    if (!take(region, consumer_kind, now_ns, &previous))
        return -EBUSY;

    bool from_creation = previous == 0 && __atomic_load_n(&region->recording, __ATOMIC_RELAXED) != 0;
    reader->consumer_pid = (uint32_t)getpid();
    reader->session_start_ns = from_creation ? 0 : now_ns;
    reader->corrupt = reader->stalled = 0;
    reader->lost_threads_before = from_creation ? 0 : __atomic_load_n(&region->lost_threads, __ATOMIC_RELAXED);
    reader->lost_strings_before = from_creation ? 0 : __atomic_load_n(&region->lost_strings, __ATOMIC_RELAXED);
    reader->lost_device_before = from_creation ? 0 : __atomic_load_n(&region->lost_device, __ATOMIC_RELAXED);
    __atomic_store_n(&region->consumer_kind, consumer_kind, __ATOMIC_RELAXED);
    __atomic_store_n(&region->lease_ns, now_ns, __ATOMIC_RELAXED);
    if (!from_creation)
        __atomic_fetch_add(&region->session, 1, __ATOMIC_RELAXED);
    pln_reader_map_rings(reader);
    for (uint32_t i = 0; i < reader->ring_count; i++)
        start_ring(&reader->rings[i], from_creation, reader->geometry.ring_records);
    __atomic_store_n(&region->ending, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&region->recording, 1, __ATOMIC_RELEASE); /* what is above is in place before records come */
    pln_ring_bell(region);
    return 0;
}

int64_t pln_reader_drain(pln_reader *reader, struct pln_sink **sinks, unsigned count) {
    struct pln_region *region = reader->region;
    if (reader->consumer_pid == 0 || __atomic_load_n(&region->consumer_pid, __ATOMIC_RELAXED) != reader->consumer_pid)
        return -ESTALE;
    __atomic_store_n(&region->lease_ns, pln_now_ns(), __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&region->recording, 1, __ATOMIC_RELAXED) == 0) {
        reader->stalled++;
        pln_ring_bell(region);
    }
    return pln_reader_copy(reader, sinks, count);
}

/* Open ranges that a session's end takes from their threads, as records; those of a ring are neighbours. */
struct closed {
    struct pln_range *ranges;
    uint32_t *rings; /* of each */
    size_t count;
    size_t room;
};

/* For as many as a ring may have. Without memory their threads keep them. */
static bool make_room(struct closed *closed) {
    if (closed->room - closed->count >= PLN_OPEN_MAX)
        return true;
    size_t room = 2 * closed->room + PLN_OPEN_MAX;
    struct pln_range *ranges = realloc(closed->ranges, room * sizeof *ranges);
    closed->ranges = ranges != NULL ? ranges : closed->ranges;
    uint32_t *rings = realloc(closed->rings, room * sizeof *rings);
    closed->rings = rings != NULL ? rings : closed->rings;
    if (ranges == NULL || rings == NULL)
        return false;
    closed->room = room;
    return true;
}

static void close_open(const struct pln_reader *reader, uint32_t index, uint64_t now_ns, struct closed *closed) {
    struct pln_ring *ring = reader->rings[index].ring;
    struct pln_open *open = (struct pln_open *)((char *)ring + PLN_OPEN_OFFSET);
    /* Acquire, pairs with the release in record.c: entries below depth are whole. */
    uint32_t depth = __atomic_load_n(&ring->depth, __ATOMIC_ACQUIRE);
    uint32_t tid = __atomic_load_n(&ring->tid, __ATOMIC_RELAXED);
    uint32_t parent = 0;
    if (depth > PLN_OPEN_MAX)
        depth = PLN_OPEN_MAX;
    for (uint32_t i = 0; i < depth; i++) {
        uint32_t seq = __atomic_load_n(&open[i].seq, __ATOMIC_ACQUIRE); /* pairs with the release in record.c */
        struct pln_range range = {
            .kind = PLN_RANGE,
            .flags = PLN_UNFINISHED,
            .tid = tid,
            .start_ns = __atomic_load_n(&open[i].start_ns, __ATOMIC_RELAXED),
            .end_ns = now_ns,
            .name = __atomic_load_n(&open[i].name, __ATOMIC_RELAXED),
            .seq = seq,
            .parent = parent,
            .depth = (uint16_t)i,
            .end_tid = tid,
        };
        parent = seq != 0 ? seq : parent;
        if (seq == 0 || range.start_ns < reader->session_start_ns || range.start_ns > now_ns)
            continue;
        /* Whoever closes it reports it: the other half of pln_close() in process.h. */
        if (!__atomic_compare_exchange_n(&open[i].seq, &seq, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        closed->rings[closed->count] = index;
        closed->ranges[closed->count++] = range;
    }
}

/* Whether a ring has, not drained yet, the range's record: its thread was about to write it when we closed it. */
static bool is_recorded(const struct pln_reader *reader, const struct ring_reader *ring,
                        const struct pln_range *range) {
    uint64_t mask = reader->geometry.ring_records - 1;
    const struct pln_range *records = (const struct pln_range *)((const char *)ring->ring + PLN_RING_HEADER);
    for (uint64_t at = ring->tail; at < ring->end && at - ring->tail <= mask; at++) {
        const struct pln_range *record = &records[at & mask];
        if (record->kind == PLN_RANGE && record->seq == range->seq && record->tid == range->tid)
            return true;
    }
    return false;
}

/* What comes into the rings from now on is not of the session. */
static void fix_ends(struct pln_reader *reader) {
    for (uint32_t i = 0; i < reader->ring_count; i++)
        reader->rings[i].end =
            __atomic_load_n(&reader->rings[i].ring->head, __ATOMIC_ACQUIRE); /* pairs as in drain.c */
}

static void drop_recorded(const struct pln_reader *reader, struct closed *closed) {
    size_t kept = 0;
    for (size_t i = 0; i < closed->count; i++)
        if (!is_recorded(reader, &reader->rings[closed->rings[i]], &closed->ranges[i]))
            closed->ranges[kept++] = closed->ranges[i];
    closed->count = kept;
}

/* Waits, not for ever, until no producer is between closing a range and writing it. */
static void await_stragglers(const struct pln_reader *reader, uint64_t deadline_ns) {
    const struct timespec pause = {.tv_nsec = 50000};
    for (uint32_t i = 0; i < reader->ring_count; i++)
        /* Acquire, pairs with the release in leave() in record.c. */
        while (__atomic_load_n(&reader->rings[i].ring->busy, __ATOMIC_ACQUIRE) != 0 && pln_now_ns() < deadline_ns)
            nanosleep(&pause, NULL);
}

void pln_reader_announce_end(pln_reader *reader) {
    __atomic_store_n(&reader->region->ending, 1, __ATOMIC_RELAXED);
    pln_ring_bell(reader->region);
}

int pln_reader_awaits_sources(const pln_reader *reader) {
    /* Acquire, pairs with the release in control.c: what was handed over is in the rings. */
    return __atomic_load_n(&reader->region->holds_back, __ATOMIC_ACQUIRE) != 0 &&
           __atomic_load_n(&reader->region->handed_over, __ATOMIC_ACQUIRE) == 0;
}

void pln_reader_end(pln_reader *reader, struct pln_sink **sinks, unsigned count) {
    struct pln_region *region = reader->region;
    if (pln_reader_drain(reader, sinks, count) < 0)
        return;
    uint64_t now_ns = pln_now_ns();
    __atomic_store_n(&region->recording, 0, __ATOMIC_SEQ_CST);
    pln_ring_bell(region);
    struct closed closed = {0};
    for (uint32_t i = 0; i < reader->ring_count && make_room(&closed); i++)
        close_open(reader, i, now_ns, &closed);
    await_stragglers(reader, now_ns + STRAGGLERS_NS);
    fix_ends(reader);
    drop_recorded(reader, &closed);
    pln_reader_write(reader, closed.ranges, closed.count, sinks, count);
    free(closed.ranges);
    free(closed.rings);
    pln_reader_copy(reader, sinks, count);
    for (uint32_t i = 0; i < reader->ring_count; i++)
        pln_reader_give_back(&reader->rings[i], reader->rings[i].tail);
    reader->consumer_pid = 0;
    let_go(region);
}

struct loss_list {
    struct pln_loss *losses;
    unsigned max;
    unsigned count;
};

static void add_loss(struct loss_list *list, uint32_t kind, uint32_t tid, uint64_t count) {
    if (count == 0)
        return;
    if (list->count < list->max)
        list->losses[list->count] = (struct pln_loss){kind, tid, count};
    list->count++;
}

unsigned pln_reader_losses(const pln_reader *reader, struct pln_loss *losses, unsigned max) {
    struct loss_list list = {losses, max, 0};
    for (uint32_t i = 0; i < reader->ring_count; i++) {
        const struct ring_reader *ring = &reader->rings[i];
        uint32_t tid = __atomic_load_n(&ring->ring->tid, __ATOMIC_RELAXED);
        for (uint32_t kind = 0; kind < PLN_KINDS; kind++)
            add_loss(&list, kind, tid,
                     __atomic_load_n(&ring->ring->lost[kind], __ATOMIC_RELAXED) - ring->lost_before[kind]);
    }
    const struct pln_region *region = reader->region;
    add_loss(&list, PLN_LOSS_THREADS, 0,
             __atomic_load_n(&region->lost_threads, __ATOMIC_RELAXED) - reader->lost_threads_before);
    add_loss(&list, PLN_LOSS_STRINGS, 0,
             __atomic_load_n(&region->lost_strings, __ATOMIC_RELAXED) - reader->lost_strings_before);
    add_loss(&list, PLN_LOSS_DEVICE, 0,
             __atomic_load_n(&region->lost_device, __ATOMIC_RELAXED) - reader->lost_device_before);
    add_loss(&list, PLN_LOSS_CORRUPT, 0, reader->corrupt);
    add_loss(&list, PLN_LOSS_STALLED, 0, reader->stalled);
    return list.count;
}

unsigned pln_reader_fill(const pln_reader *reader) {
    return reader->fill_percent;
}
