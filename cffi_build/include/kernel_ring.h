/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's reader of the eBPF ring buffer: events in, samples with stack ids out.
 *
 * One drain serves all sessions. Per session it interns stacks and appends 64-byte samples and waits; what is rare
 * (lifecycle, names) and what is new (stacks to be symbolised) is left for Python, which so never sees an event twice.
 */
#ifndef PILLION_KERNEL_RING_H
#define PILLION_KERNEL_RING_H

#include <stddef.h>

#include "kernel_event.h"

#pragma GCC visibility push(default)

#define PLN_SESSIONS 64

struct pln_bytes {
    char *data; /* valid until the next drain or pln_session_clear */
    size_t used;
    size_t room;
};

/* What a session collects between two flushes. */
struct pln_session {
    uint64_t wait_threshold_ns;
    struct pln_bytes samples; /* struct pln_sample */
    struct pln_bytes stacks;  /* struct pln_new_stack, each followed by its frames */
    struct pln_bytes ranges;  /* struct pln_usdt_range */
    struct pln_bytes hits;    /* struct pln_probe_hit */
    uint64_t sample_count;
    uint64_t wait_count;
    uint64_t range_count; /* hits are among them */
    uint64_t lost_memory; /* events for which no memory was to be had */
    uint64_t lost_stacks; /* samples without a stack: the table was full */
    struct pln_stack_table *table;
};

/* n_kernel + n_native + n_python frames follow, each section leaf first. */
struct pln_new_stack {
    uint32_t id;
    uint32_t pid;
    uint16_t n_kernel;
    uint16_t n_native;
    uint16_t n_python;
    uint16_t flags;
};

struct pln_usdt_range {
    uint32_t pid;
    uint32_t reserved;
    uint8_t record[64];
};

struct pln_session *pln_session_new(uint64_t wait_threshold_ns);
void pln_session_free(struct pln_session *session);
/* Forgets what was flushed. */
void pln_session_clear(struct pln_session *session);

/* Adds one sample or wait, as if it had come through the ring. */
void pln_session_add(struct pln_session *session, const struct pln_event *event);

/* map_fd: a BPF_MAP_TYPE_RINGBUF of size_bytes. Returns NULL and sets *error (an errno). */
struct pln_kernel_ring *pln_kernel_ring_open(int map_fd, size_t size_bytes, int *error);
void pln_kernel_ring_close(struct pln_kernel_ring *ring);

/* Reads what is there. sessions has PLN_SESSIONS entries, NULL where a bit is free. Events of other kinds than samples,
 * waits, calls, ranges and hits are appended to *rest, each as uint32_t length, uint32_t 0, struct pln_event prefix. Returns the number of
 * events read. */
int64_t pln_kernel_ring_drain(struct pln_kernel_ring *ring, struct pln_session **sessions, struct pln_bytes *rest);

void pln_bytes_free(struct pln_bytes *bytes);

#pragma GCC visibility pop

#endif
