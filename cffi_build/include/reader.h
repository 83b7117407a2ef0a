/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector's side of a region. A region is untrusted input: its geometry is checked once and kept in private
 * memory, every counter read later is bounded before use, and nothing in it can make a call here crash or hang.
 * A reader belongs to one thread at a time.
 */
#ifndef PLN_READER_H
#define PLN_READER_H

#include "pillion.h"

#pragma GCC visibility push(default)

typedef struct pln_reader pln_reader;

/* Where one session keeps what it reads from one region: a spool, and how far it got. */
struct pln_sink {
    int fd;
    int error;                /* 0, or the errno that ended it: whole blocks before it stay */
    uint64_t strings_written; /* bytes of this region's string log that are in the spool */
    uint64_t records;
    uint64_t bytes; /* blocks with their headers */
};

struct pln_loss {
    uint32_t kind; /* below PLN_KINDS the kind of records that found a ring full, otherwise PLN_LOSS_* */
    uint32_t tid; /* last owner of the ring; 0 where the loss is the region's */
    uint64_t count;
};

/* Opens a region by its descriptor (which is duplicated). pid and region go into the blocks. On failure returns NULL
 * and sets *error: EPERM not a sealed memfd, EPROTO not a region or a nonsensical one, otherwise errno. */
pln_reader *pln_reader_open(int fd, uint32_t pid, uint32_t region, int *error);

/* Unmaps; never touches the region. */
void pln_reader_close(pln_reader *reader);

/* Becomes the region's consumer and switches recording on. Older records are skipped, except in a region that recorded
 * from its creation and had no consumer yet. Returns 0, or -EBUSY while another consumer is alive. */
int pln_reader_begin(pln_reader *reader, uint32_t consumer_kind);

/* Switches off a recording that nobody consumes. Returns 0, or -EBUSY where somebody does. */
int pln_reader_decline(pln_reader *reader);

/* Appends what is new to every sink and renews the lease. Returns the number of records, or -ESTALE once another
 * consumer has taken over. A sink with an error is passed over. */
int64_t pln_reader_drain(pln_reader *reader, struct pln_sink **sinks, unsigned count);

/* Says that pln_reader_end() will come: sources of the job that hold records back hand them over, and stop. */
void pln_reader_announce_end(pln_reader *reader);

/* Whether a source of the job still holds records back; drain meanwhile, and do not trust it for ever. */
int pln_reader_awaits_sources(const pln_reader *reader);

/* Switches recording off, drains, reports the ranges still open as PLN_UNFINISHED and lets go of the region. */
void pln_reader_end(pln_reader *reader, struct pln_sink **sinks, unsigned count);

/* Fills at most max losses since begin; returns how many there are. */
unsigned pln_reader_losses(const pln_reader *reader, struct pln_loss *losses, unsigned max);

/* How full the fullest ring was at the last drain, in percent. */
unsigned pln_reader_fill(const pln_reader *reader);

/* Whether a source that holds records back, CUPTI's, runs in the job, or ran to its end. */
int pln_reader_has_collector(const pln_reader *reader);

uint32_t pln_reader_pid(const pln_reader *reader); /* as the process itself sees it */
uint64_t pln_reader_started_ns(const pln_reader *reader);
uint32_t pln_reader_ring_count(const pln_reader *reader);
int64_t pln_reader_tls_offset(const pln_reader *reader);

#pragma GCC visibility pop

#endif
