/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace in Chrome's JSON, as Kineto writes it, into fixed records: for importing traces of gigabytes.
 *
 * The reader takes the file in pieces and holds none of it: of each event the known members become numbers, everything
 * else is interned text. The bytes are untrusted: nothing recurses, every read has a bound, and what is wrong ends the
 * reading with its place.
 */
#ifndef PILLION_TRACE_JSON_H
#define PILLION_TRACE_JSON_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#define PLN_TRACE_MORE 0   /* needs the bytes that follow: feed the rest from `consumed` on, with more behind it */
#define PLN_TRACE_FULL 1   /* no room for another event */
#define PLN_TRACE_MEMBER 2 /* a member of the trace itself is at key_at and value_at, which both are JSON */
#define PLN_TRACE_END 3    /* the trace is complete */
#define PLN_TRACE_BAD 4    /* no JSON, or no trace, at `consumed` */
#define PLN_TRACE_MEMORY 5 /* out of memory */

#define PLN_TRACE_DEVICE 1    /* a device's: device, context, stream (else tid) and bytes are members of it */
#define PLN_TRACE_PID_TEXT 2  /* pid is no number, but a text of PLN_TRACE_LABELS */
#define PLN_TRACE_TID_TEXT 4  /* likewise tid */
#define PLN_TRACE_NO_START 8  /* ts is missing, no number or too great */
#define PLN_TRACE_NO_END 16   /* likewise dur */
#define PLN_TRACE_TOO_DEEP 32 /* a member was nested too deeply to be kept */

#define PLN_TRACE_STRINGS 0 /* names, shapes, attributes */
#define PLN_TRACE_LABELS 1  /* categories, stacks, ids, attributes of metadata */

/* Texts are numbers of interned strings, 0 for none. What an event does not have is 0, but sequence_nr and device -1. */
struct pln_trace_event {
    int64_t start_ns;
    int64_t duration_ns;
    int64_t pid;
    int64_t tid;
    int64_t external_id;
    int64_t correlation;
    int64_t sequence_nr;
    int64_t fwd_thread;
    int64_t stream;
    int64_t context;
    int64_t bytes;
    uint32_t name;
    uint32_t category; /* a label */
    uint32_t id; /* a label: the raw token of id or id2 */
    uint32_t shapes; /* JSON */
    uint32_t stack; /* a label */
    uint32_t frame; /* a label: of the member stackFrames the key of the innermost frame */
    uint32_t attributes; /* JSON: what is not in another field */
    int32_t device;
    uint16_t flags;
    uint8_t phase; /* Chrome's: X, i, M, … */
    uint8_t reserved[5];
};

struct pln_trace_step {
    size_t consumed;
    size_t events;
    size_t key_at;
    size_t key_size;
    size_t value_at;
    size_t value_size;
};

struct pln_trace *pln_trace_new(void);
void pln_trace_free(struct pln_trace *trace);

/* Reads on: data is what no step before has consumed. Returns PLN_TRACE_*. */
int pln_trace_feed(struct pln_trace *trace, const uint8_t *data, size_t size, struct pln_trace_event *events,
                   size_t room, struct pln_trace_step *step);

/* Bit i is set where the i-th 64 bits of the events are not all the same. */
uint32_t pln_trace_differing(const struct pln_trace_event *events, size_t count);

/* Whether the reading has come to an array of events. */
int pln_trace_has_events(const struct pln_trace *trace);

/* Flows (s, t, f) and counters (C) are not given as events, only counted. */
uint64_t pln_trace_flows(const struct pln_trace *trace);
uint64_t pln_trace_counters(const struct pln_trace *trace);

/* The interned texts: text i is bytes[offsets[i]] up to bytes[offsets[i + 1]]. Valid until the next feed. */
size_t pln_trace_texts(const struct pln_trace *trace, int which, const uint8_t **bytes, const uint64_t **offsets);

#pragma GCC visibility pop

#endif
