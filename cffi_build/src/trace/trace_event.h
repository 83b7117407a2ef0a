/* One event of a trace: from the slices that its members are to its record. */
#ifndef PILLION_TRACE_EVENT_H
#define PILLION_TRACE_EVENT_H

#include "trace_json.h"

#include <string.h>

#include "../bytes.h"
#include "json_scan.h"
#include "key_memo.h"
#include "text_table.h"

#define IS(slice, literal) ((slice).size == sizeof(literal) - 1 && !memcmp((slice).at, literal, sizeof(literal) - 1))

enum state {
    START,
    MEMBERS, /* in the object that holds traceEvents */
    EVENTS,
    END,
};

struct member {
    struct json_slice key;
    struct json_slice value;
};

struct pln_trace {
    enum state state;
    bool is_array; /* the trace is the array of events itself */
    bool has_events;
    bool has_read_one;
    uint64_t flows;
    uint64_t counters;
    struct text_table texts[2];
    struct key_memo part_memos[KEY_MEMOS]; /* of the members of an event */
    struct key_memo arg_memos[KEY_MEMOS];  /* of those of its args */
    struct pln_bytes scratch;
    struct member *rest; /* of the event at hand: the members of args, and those that have no field */
    size_t rest_count;
    size_t rest_room;
};

/* Members of an event whose values are not simply numbers. */
struct parts {
    struct json_slice phase, category, name, pid, tid, ts, dur, id, frame;
};

/* Fills an event, of which flags and phase are set, from its parts and from what is in trace->rest, which it uses up. False for want of memory. */
bool trace_fill(struct pln_trace *trace, const struct parts *parts, struct pln_trace_event *event);

#endif
