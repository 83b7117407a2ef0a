/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying what rings and string log hold into spools: the kernel copies straight from the mapping.
 */
#define _GNU_SOURCE
#include "region_reader.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "spool_vector.h"

#define RING_PIECES 2 /* what a ring holds may wrap around its end */

/* A ring wraps through all of its 8 MB, however few records a second it gets. A page that exists costs its job nothing
 * when it comes again, and one that does not a page fault, 65 ns for each of its 64 records on the machine of the
 * measurements. So a region may keep the rings of some busy threads; beyond that the pages that a drain has emptied go
 * back to the system. */
#define PAGE_RECORDS (4096 / PLN_RECORD_SIZE)
#define KEPT_BYTES (32u << 20)
#define KEPT_RING_RECORDS 1024 /* a smaller ring is not worth it */

/* One block under construction: stretches of several rings. */
struct batch {
    struct iovec pieces[PLN_SPOOL_PIECES];
    unsigned count;
    uint32_t first_ring;
    uint64_t bytes;
};

static void write_block(struct pln_sink *sink, const struct pln_block *block, const struct iovec *pieces,
                        unsigned count) {
    int error = pln_spool_pieces(sink->fd, block, pieces, count);
    if (error != 0) {
        sink->error = -error;
        return;
    }
    sink->bytes += sizeof *block + block->length;
    if (block->kind == PLN_BLOCK_RECORDS)
        sink->records += block->length / PLN_RECORD_SIZE;
    else
        sink->strings_written += block->length;
}

static void write_records(struct pln_reader *reader, const struct iovec *pieces, unsigned piece_count, uint64_t bytes,
                          struct pln_sink **sinks, unsigned count) {
    struct pln_block block = {.kind = PLN_BLOCK_RECORDS, .pid = reader->pid, .region = reader->number, .length = bytes};
    for (unsigned i = 0; i < count; i++)
        if (sinks[i]->error == 0)
            write_block(sinks[i], &block, pieces, piece_count);
}

void pln_reader_write(struct pln_reader *reader, const struct pln_range *records, size_t record_count,
                      struct pln_sink **sinks, unsigned count) {
    struct iovec piece = {(void *)records, record_count * sizeof *records};
    if (record_count > 0)
        write_records(reader, &piece, 1, piece.iov_len, sinks, count);
}

static void write_strings(struct pln_reader *reader, struct pln_sink *sink) {
    /* Acquire, pairs with the release store in intern.c: bytes below it are whole. After the records, so that the names
     * of all of them are there. */
    uint64_t used = __atomic_load_n(&reader->region->strings_used, __ATOMIC_ACQUIRE);
    if (used > reader->geometry.strings_size)
        used = reader->geometry.strings_size;
    if (sink->error != 0 || used <= sink->strings_written)
        return;
    struct pln_block block = {
        .kind = PLN_BLOCK_STRINGS,
        .pid = reader->pid,
        .region = reader->number,
        .offset = sink->strings_written,
        .length = used - sink->strings_written,
    };
    struct iovec piece = {(char *)reader->region + reader->geometry.strings_offset + sink->strings_written,
                          block.length};
    write_block(sink, &block, &piece, 1);
}

/* Notes what is new in a ring; the pieces point into it. */
static void add_ring(struct pln_reader *reader, struct ring_reader *ring, struct batch *batch) {
    uint64_t capacity = reader->geometry.ring_records;
    ring->head = __atomic_load_n(&ring->ring->head, __ATOMIC_ACQUIRE); /* pairs with the release in record.c */
    if (ring->head > ring->end)
        ring->head = ring->end;
    uint64_t fresh = ring->head - ring->tail;
    if (fresh > capacity) { /* also a head that went back */
        reader->corrupt++;
        ring->tail = ring->head;
        fresh = 0;
    }
    unsigned fill_percent = (unsigned)(fresh * 100 / capacity);
    if (fill_percent > reader->fill_percent)
        reader->fill_percent = fill_percent;

    uint64_t at = ring->tail & (capacity - 1);
    uint64_t before_end = fresh < capacity - at ? fresh : capacity - at;
    char *records = (char *)ring->ring + PLN_RING_HEADER;
    const struct iovec pieces[RING_PIECES] = {
        {records + at * PLN_RECORD_SIZE, before_end * PLN_RECORD_SIZE},
        {records, (fresh - before_end) * PLN_RECORD_SIZE},
    };
    for (unsigned i = 0; i < RING_PIECES; i++)
        if (pieces[i].iov_len > 0)
            batch->pieces[batch->count++] = pieces[i];
    batch->bytes += fresh * PLN_RECORD_SIZE;
}

void pln_reader_give_back(struct ring_reader *ring, uint64_t tail) {
    ring->given_back = tail;
    __atomic_store_n(&ring->ring->tail, tail, __ATOMIC_RELEASE); /* pairs with the acquire in record.c */
}

static void punch(const struct pln_reader *reader, uint32_t index, uint64_t from, uint64_t to) {
    uint64_t at = from & (reader->geometry.ring_records - 1);
    uint64_t offset = reader->geometry.rings_offset + index * reader->geometry.ring_stride + PLN_RING_HEADER;
    /* Where it fails the pages stay, as they would without it. */
    (void)!fallocate(reader->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(offset + at * PLN_RECORD_SIZE),
                     (off_t)((to - from) * PLN_RECORD_SIZE));
}

/* Takes the pages that have been emptied, then gives their slots back: in this order no record can be in them. */
static void recycle(const struct pln_reader *reader, uint32_t index, bool keep) {
    struct ring_reader *ring = &reader->rings[index];
    uint64_t capacity = reader->geometry.ring_records;
    uint64_t held = ring->tail - ring->given_back; /* more than the ring only if its head was nonsense */
    if (keep || capacity < KEPT_RING_RECORDS || held > capacity) {
        pln_reader_give_back(ring, ring->tail);
        return;
    }
    uint64_t from = (ring->given_back + PAGE_RECORDS - 1) & ~(uint64_t)(PAGE_RECORDS - 1);
    uint64_t to = ring->tail & ~(uint64_t)(PAGE_RECORDS - 1);
    if (from >= to)
        return;
    uint64_t wrap = (from | (capacity - 1)) + 1; /* where from's turn through the ring ends */
    punch(reader, index, from, to < wrap ? to : wrap);
    if (to > wrap)
        punch(reader, index, wrap, to);
    pln_reader_give_back(ring, to);
}

static bool keeps_pages(const struct pln_reader *reader) {
    struct stat status;
    return fstat(reader->fd, &status) == 0 && (uint64_t)status.st_blocks * 512 <= KEPT_BYTES;
}

/* Writes the block and gives the slots of rings [first_ring, end_ring) back. */
static void flush(struct pln_reader *reader, struct batch *batch, uint32_t end_ring, struct pln_sink **sinks,
                  unsigned count) {
    if (batch->count > 0)
        write_records(reader, batch->pieces, batch->count, batch->bytes, sinks, count);
    bool keep = keeps_pages(reader);
    for (uint32_t i = batch->first_ring; i < end_ring; i++) {
        reader->rings[i].tail = reader->rings[i].head;
        recycle(reader, i, keep);
    }
    batch->first_ring = end_ring;
    batch->count = 0;
    batch->bytes = 0;
}

int64_t pln_reader_copy(struct pln_reader *reader, struct pln_sink **sinks, unsigned count) {
    struct batch batch = {.first_ring = 0};
    uint64_t bytes = 0;
    reader->fill_percent = 0;
    pln_reader_map_rings(reader);
    for (uint32_t i = 0; i < reader->ring_count; i++) {
        uint64_t before = batch.bytes;
        add_ring(reader, &reader->rings[i], &batch);
        bytes += batch.bytes - before;
        if (batch.count > PLN_SPOOL_PIECES - RING_PIECES)
            flush(reader, &batch, i + 1, sinks, count);
    }
    flush(reader, &batch, reader->ring_count, sinks, count);
    for (unsigned i = 0; i < count; i++)
        write_strings(reader, sinks[i]);
    return (int64_t)(bytes / PLN_RECORD_SIZE);
}
