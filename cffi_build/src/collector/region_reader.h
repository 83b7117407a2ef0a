/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader from inside. Whatever lies in the mapping is the job's to change at any moment: load a counter once, check
 * the copy, use the copy.
 */
#ifndef PLN_REGION_READER_H
#define PLN_REGION_READER_H

#include "reader.h"

/* A process may have 65,530 maps (vm.max_map_count), and one region may have as many rings. */
#define PLN_STRETCHES 17

struct ring_reader {
    struct pln_ring *ring; /* mapped */
    uint64_t tail;         /* ours; the one in the ring is only for the producer to see */
    uint64_t given_back;   /* what we last stored there: tail, or less by a part of a page */
    uint64_t head;         /* as of the drain in progress */
    uint64_t end;          /* records from here on come after the session; UINT64_MAX while it goes on */
    uint64_t lost_before[PLN_KINDS];
};

struct pln_reader {
    struct pln_region geometry; /* the checked copy */
    struct pln_region *region;  /* mapped: header and string log */
    struct ring_reader *rings;
    uint32_t ring_count; /* mapped so far */
    uint32_t ring_room;
    char *stretches[PLN_STRETCHES]; /* of 1, 2, 4, … rings, each mapped as a whole */
    unsigned stretch_count;
    int fd;
    uint32_t pid; /* for the blocks */
    uint32_t number;

    uint32_t consumer_pid; /* 0: no session */
    uint64_t session_start_ns;
    uint64_t lost_threads_before;
    uint64_t lost_strings_before;
    uint64_t lost_device_before;
    uint64_t corrupt;
    uint64_t stalled;
    unsigned fill_percent;
};

/* region_reader.c: maps the rings that have appeared. */
void pln_reader_map_rings(struct pln_reader *reader);

/* drain.c. A ring's slots up to tail are the producer's again. */
void pln_reader_give_back(struct ring_reader *ring, uint64_t tail);
int64_t pln_reader_copy(struct pln_reader *reader, struct pln_sink **sinks, unsigned count);
void pln_reader_write(struct pln_reader *reader, const struct pln_range *records, size_t record_count,
                      struct pln_sink **sinks, unsigned count);

#endif
