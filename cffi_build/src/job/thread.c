/* SPDX-License-Identifier: Apache-2.0
 *
 * Which thread has which ring. A thread takes a ring at its first range that somebody wants and gives it back when it
 * exits. Rings are never unmapped: a token may point to one for as long as the process lives.
 */
#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thread_names.h"

__thread struct pln_ring *pln_ring;

#define PAGE 4096u

/* All under pln_process_mutex, but that rings below region.ring_count stay as they are. */
static struct pln_ring *rings[PLN_RING_MAX];
static struct pln_ring *free_rings[PLN_RING_MAX];
static uint32_t ring_count;
static uint32_t free_count;
static bool exhausted; /* no memory for another ring: do not ask again */

static bool key_made;
static pthread_key_t exit_key;

static size_t mapped_bytes(void) {
    return pln_process.ring_stride + PLN_DEEP_BYTES;
}

/* Ring and deep stack are one stretch of addresses: reserve it, then lay the memfd over its first part. */
static struct pln_ring *map_ring(uint64_t offset) {
    char *base = mmap(NULL, mapped_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    void *ring = mmap(base, pln_process.ring_stride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pln_process.fd,
                      (off_t)offset);
    if (ring == MAP_FAILED) {
        munmap(base, mapped_bytes());
        return NULL;
    }
    return ring;
}

static struct pln_ring *new_ring(void) {
    struct pln_region *region = pln_process.region;
    uint64_t offset = region->rings_offset + ring_count * pln_process.ring_stride;
    if (ring_count == PLN_RING_MAX || !pln_region_fd_is_ours() ||
        pln_region_grow(pln_process.fd, offset + pln_process.ring_stride) != 0)
        return NULL;
    struct pln_ring *ring = map_ring(offset);
    if (ring == NULL)
        return NULL;
    rings[ring_count++] = ring;
    return ring;
}

/* The ring's last thread may have left ranges open, for another thread to end; that hope ends here. */
static void close_leftovers(struct pln_ring *ring) {
    uint64_t now_ns = pln_now_ns();
    for (uint32_t depth = ring->depth; depth > 0; depth--) {
        struct pln_range range = {
            .kind = PLN_RANGE,
            .flags = PLN_UNFINISHED,
            .tid = ring->tid,
            .end_ns = now_ns,
            .seq = *pln_open_seq(ring, depth - 1),
            .parent = depth > 1 ? *pln_open_seq(ring, depth - 2) : 0,
            .depth = (uint16_t)(depth - 1),
            .end_tid = ring->tid,
        };
        if (range.seq == 0 || !pln_close(ring, depth - 1, range.seq) || !pln_records())
            continue;
        if (depth > PLN_OPEN_MAX) {
            pln_lose(ring, PLN_RANGE); /* its begin was not kept */
            continue;
        }
        range.start_ns = pln_ring_open(ring)[depth - 1].start_ns;
        range.name = pln_ring_open(ring)[depth - 1].name;
        pln_store(ring, &range);
    }
    __atomic_store_n(&ring->depth, 0, __ATOMIC_RELEASE);
}

static void take(struct pln_ring *ring) {
    ring->busy = 0; /* a thread that was cancelled in the middle */
    close_leftovers(ring);
    ring->tid = (uint32_t)syscall(SYS_gettid);
    ring->claimed_ns = pln_now_ns();
    ring->session = pln_process.region->session - 1; /* not told yet */
    prctl(PR_GET_NAME, ring->comm);
    __atomic_store_n(&ring->state, PLN_RING_LIVE, __ATOMIC_RELEASE); /* pairs with the reader's acquire */
}

static void release(void *value) {
    struct pln_ring *ring = value;
    pln_ring = NULL;
    pln_forget_thread_name(ring->tid);
    if (pthread_mutex_lock(&pln_process_mutex) != 0)
        return;
    __atomic_store_n(&ring->state, PLN_RING_FREE, __ATOMIC_RELEASE); /* pairs with the reader's acquire */
    free_rings[free_count++] = ring;
    pthread_mutex_unlock(&pln_process_mutex);
}

static struct pln_ring *claim_locked(void) {
    if (!key_made && pthread_key_create(&exit_key, release) != 0)
        return NULL;
    key_made = true;
    struct pln_ring *ring = free_count > 0 ? free_rings[free_count - 1] : exhausted ? NULL : new_ring();
    if (ring == NULL) {
        exhausted = true;
        return NULL;
    }
    if (pthread_setspecific(exit_key, ring) != 0)
        ring = NULL; /* a ring that was just made goes to waste, out of memory as we are */
    else if (free_count > 0)
        free_count--;
    return ring;
}

struct pln_ring *pln_ring_claim(void) {
    if (pln_setup() != 0) {
        pln_lose_without_region();
        return NULL;
    }
    if (!pln_wanted() && !PLN_SEMAPHORE(mark))
        return NULL;
    int saved_errno = errno;
    struct pln_region *region = pln_process.region;
    struct pln_ring *ring = NULL;
    if (pthread_mutex_lock(&pln_process_mutex) == 0) { /* EDEADLK: in a signal handler that interrupted us */
        ring = claim_locked();
        if (ring != NULL) {
            take(ring);
            /* Release, pairs with the reader's acquire: rings below ring_count are initialised. */
            __atomic_store_n(&region->ring_count, ring_count, __ATOMIC_RELEASE);
            pln_ring = ring;
        }
        pthread_mutex_unlock(&pln_process_mutex);
    }
    if (ring == NULL)
        __atomic_fetch_add(&region->lost_threads, 1, __ATOMIC_RELAXED);
    errno = saved_errno;
    return ring;
}

/* Tells the name in this session. The ring is entered. */
void pln_thread_announce(struct pln_ring *ring) {
    ring->session = __atomic_load_n(&pln_process.region->session, __ATOMIC_RELAXED);
    prctl(PR_GET_NAME, ring->comm);
    const char *given = pln_given_thread_name(ring->tid);
    uint64_t now_ns = pln_now_ns();
    struct pln_range record = {
        .kind = PLN_THREAD,
        .tid = ring->tid,
        .start_ns = now_ns,
        .end_ns = now_ns,
        .name = given != NULL ? pln_intern(given, strlen(given))
                              : pln_intern(ring->comm, strnlen(ring->comm, sizeof ring->comm)),
        .end_tid = ring->tid,
    };
    if (pln_records())
        pln_store(ring, &record);
    pln_probe(&record);
}

/* ---- pages, before their thread comes to them ---- */

/* Records that a ring had at the last look, and those for which it has pages. Of the drain thread. */
static struct {
    uint64_t head;
    uint64_t made;
} looks[PLN_RING_MAX];

/* For as many records as have come since the last look, and as many again. */
static void make_pages(uint32_t index, uint64_t head) {
    uint64_t capacity = pln_process.ring_mask + 1, per_page = PAGE / PLN_RECORD_SIZE;
    uint64_t from = looks[index].made > head ? looks[index].made : head & ~(per_page - 1);
    uint64_t to = (head + 2 * (head - looks[index].head) + per_page - 1) & ~(per_page - 1);
    if (to > capacity)
        to = capacity;
    if (from >= to)
        return;
    looks[index].made = to;
    char *pages = (char *)rings[index] + PLN_RING_HEADER + from * PLN_RECORD_SIZE;
    if (madvise(pages, (to - from) * PLN_RECORD_SIZE, MADV_POPULATE_WRITE) != 0)
        looks[index].made = capacity; /* Linux before 5.14, or no memory: they come when they are written to */
}

void pln_rings_make_pages(void) {
    /* Acquire, pairs with the release in pln_ring_claim(). */
    uint32_t count = __atomic_load_n(&pln_process.region->ring_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t head = __atomic_load_n(&rings[i]->head, __ATOMIC_RELAXED);
        if (head != looks[i].head && looks[i].made <= pln_process.ring_mask)
            make_pages(i, head);
        looks[i].head = head;
    }
}

void pln_threads_forget(void) {
    memset(looks, 0, ring_count * sizeof *looks);
    for (uint32_t i = 0; i < ring_count; i++) {
        munmap(rings[i], mapped_bytes());
    }
    ring_count = free_count = 0;
    exhausted = false;
    pln_ring = NULL;
    if (key_made)
        pthread_setspecific(exit_key, NULL);
}
