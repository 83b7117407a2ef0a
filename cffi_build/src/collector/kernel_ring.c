#include "kernel_ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../bytes.h"
#include "stack_table.h"

/* The layout of a ring buffer map: Documentation/bpf/ringbuf.rst. One page with the consumer's position, one with the
 * producer's, then the data, mapped twice in a row so that no record is split. */
#define BUSY (1u << 31)
#define DISCARDED (1u << 30)
#define RECORD_HEADER 8

struct pln_kernel_ring {
    _Atomic uint64_t *consumer;
    _Atomic uint64_t *producer;
    const char *data;
    size_t size;
    size_t page;
};

struct pln_kernel_ring *pln_kernel_ring_open(int map_fd, size_t size_bytes, int *error) {
    struct pln_kernel_ring *ring = calloc(1, sizeof *ring);
    if (!ring) {
        *error = ENOMEM;
        return NULL;
    }
    ring->page = (size_t)sysconf(_SC_PAGESIZE);
    ring->size = size_bytes;
    void *consumer = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
    void *producer = mmap(NULL, ring->page + 2 * size_bytes, PROT_READ, MAP_SHARED, map_fd, (off_t)ring->page);
    if (consumer == MAP_FAILED || producer == MAP_FAILED) {
        *error = errno;
        if (consumer != MAP_FAILED)
            munmap(consumer, ring->page);
        if (producer != MAP_FAILED)
            munmap(producer, ring->page + 2 * size_bytes);
        free(ring);
        return NULL;
    }
    ring->consumer = consumer;
    ring->producer = producer;
    ring->data = (const char *)producer + ring->page;
    return ring;
}

void pln_kernel_ring_close(struct pln_kernel_ring *ring) {
    if (!ring)
        return;
    munmap((void *)ring->consumer, ring->page);
    munmap((void *)ring->producer, ring->page + 2 * ring->size);
    free(ring);
}

struct pln_session *pln_session_new(uint64_t wait_threshold_ns) {
    struct pln_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->wait_threshold_ns = wait_threshold_ns;
    session->table = stack_table_new();
    if (session->table)
        return session;
    free(session);
    return NULL;
}

void pln_bytes_free(struct pln_bytes *bytes) {
    free(bytes->data);
    *bytes = (struct pln_bytes){0};
}

void pln_session_free(struct pln_session *session) {
    if (!session)
        return;
    pln_bytes_free(&session->samples);
    pln_bytes_free(&session->stacks);
    pln_bytes_free(&session->ranges);
    pln_bytes_free(&session->hits);
    stack_table_free(session->table);
    free(session);
}

void pln_session_clear(struct pln_session *session) {
    session->samples.used = session->stacks.used = session->ranges.used = session->hits.used = 0;
}

static uint64_t hash_frames(uint64_t hash, const uint64_t *frames, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        hash = stack_hash_add(hash, frames[i]);
    return stack_hash_add(hash, n);
}

/* The stack's id in this session, leaving a new stack's frames for the symboliser; 0 for no stack. */
static uint32_t intern(struct pln_session *session, const struct pln_event *event) {
    const uint64_t *kernel = event->frames, *native = kernel + PLN_KERNEL_FRAMES, *python = native + PLN_NATIVE_FRAMES;
    unsigned n = event->n_kernel + event->n_native + event->n_python;
    if (!n)
        return 0;
    uint64_t hash = hash_frames(event->sample.pid, kernel, event->n_kernel);
    hash = hash_frames(hash, native, event->n_native);
    hash = hash_frames(hash, python, event->n_python);
    bool fresh;
    uint32_t id = stack_table_intern(session->table, hash, &fresh);
    if (!id)
        session->lost_stacks++;
    if (!fresh)
        return id;
    char *place = bytes_extend(&session->stacks, sizeof(struct pln_new_stack) + 8 * n);
    if (!place) {
        session->lost_stacks++;
        return id; /* without frames it reads as unknown */
    }
    struct pln_new_stack head = {
        id, event->sample.pid, event->n_kernel, event->n_native, event->n_python, event->sample.flags};
    memcpy(place, &head, sizeof head);
    place += sizeof head;
    memcpy(place, kernel, 8 * event->n_kernel);
    memcpy(place + 8 * event->n_kernel, native, 8 * event->n_native);
    memcpy(place + 8 * (event->n_kernel + event->n_native), python, 8 * event->n_python);
    return id;
}

void pln_session_add(struct pln_session *session, const struct pln_event *event) {
    bool wait = event->sample.kind == PLN_WAIT;
    if (wait && event->sample.end_ns - event->sample.start_ns < session->wait_threshold_ns)
        return;
    struct pln_sample *sample = bytes_extend(&session->samples, sizeof *sample);
    if (!sample) {
        session->lost_memory++;
        return;
    }
    *sample = event->sample;
    sample->reserved = 0;
    sample->stack = intern(session, event);
    session->wait_count += wait;
    session->sample_count += event->sample.kind == PLN_SAMPLE;
}

static void add_range(struct pln_session *session, const struct pln_event *event) {
    struct pln_usdt_range *range = bytes_extend(&session->ranges, sizeof *range);
    if (!range) {
        session->lost_memory++;
        return;
    }
    range->pid = event->sample.pid;
    range->reserved = 0;
    memcpy(range->record, event->frames, sizeof range->record);
    session->range_count++;
}

static void add_hit(struct pln_session *session, const struct pln_event *event) {
    struct pln_probe_hit *hit = bytes_extend(&session->hits, sizeof *hit);
    if (!hit) {
        session->lost_memory++;
        return;
    }
    memcpy(hit, event, sizeof *hit);
    session->range_count++;
}

static void dispatch(const struct pln_event *event, uint32_t length, struct pln_session **sessions,
                     struct pln_bytes *rest) {
    void (*add)(struct pln_session *, const struct pln_event *) = NULL;
    if (event->sample.kind == PLN_SAMPLE || event->sample.kind == PLN_WAIT || event->sample.kind == PLN_CALL)
        add = pln_session_add;
    if (event->sample.kind == PLN_EVENT_PROBE)
        add = add_hit;
    if (event->sample.kind == PLN_EVENT_RANGE)
        add = add_range;
    if (!add) {
        uint32_t head[2] = {length, 0};
        char *place = bytes_extend(rest, sizeof head + length);
        if (!place)
            return; /* the agent then learns of the process from /proc */
        memcpy(place, head, sizeof head);
        memcpy(place + sizeof head, event, length);
        return;
    }
    for (uint64_t wanted = event->sessions; wanted; wanted &= wanted - 1) {
        struct pln_session *session = sessions[__builtin_ctzll(wanted)];
        if (session)
            add(session, event);
    }
}

int64_t pln_kernel_ring_drain(struct pln_kernel_ring *ring, struct pln_session **sessions, struct pln_bytes *rest) {
    int64_t events = 0;
    uint64_t at = atomic_load_explicit(ring->consumer, memory_order_relaxed); /* ours alone */
    /* Acquire pairs with the kernel's release of the producer position. */
    uint64_t end = atomic_load_explicit(ring->producer, memory_order_acquire);
    while (at < end) {
        const char *record = ring->data + (at & (ring->size - 1));
        /* Acquire pairs with the release that clears BUSY: the payload is whole then. */
        uint32_t length = atomic_load_explicit((const _Atomic uint32_t *)record, memory_order_acquire);
        if (length & BUSY)
            break;
        uint32_t payload = length & ~(BUSY | DISCARDED);
        if (!(length & DISCARDED)) {
            dispatch((const struct pln_event *)(record + RECORD_HEADER), payload, sessions, rest);
            events++;
        }
        at += (payload + RECORD_HEADER + 7) & ~7ull;
        atomic_store_explicit(ring->consumer, at, memory_order_release); /* the kernel may reuse the room */
    }
    return events;
}
