#define _GNU_SOURCE
#include "trace_event.h"

#include <stdlib.h>
#include <string.h>

#include "json_scan.h"

/* Not a status of the interface: the reading goes on. */
#define GO_ON (-1)

struct pln_trace *pln_trace_new(void) {
    struct pln_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return NULL;
    bool strings = text_table_init(&trace->texts[PLN_TRACE_STRINGS]);
    bool labels = text_table_init(&trace->texts[PLN_TRACE_LABELS]);
    if (strings && labels)
        return trace;
    pln_trace_free(trace);
    return NULL;
}

void pln_trace_free(struct pln_trace *trace) {
    if (!trace)
        return;
    text_table_free(&trace->texts[PLN_TRACE_STRINGS]);
    text_table_free(&trace->texts[PLN_TRACE_LABELS]);
    free(trace->scratch.data);
    free(trace->rest);
    free(trace);
}

int pln_trace_has_events(const struct pln_trace *trace) {
    return trace->has_events;
}

uint64_t pln_trace_flows(const struct pln_trace *trace) {
    return trace->flows;
}

uint64_t pln_trace_counters(const struct pln_trace *trace) {
    return trace->counters;
}

size_t pln_trace_texts(const struct pln_trace *trace, int which, const uint8_t **bytes, const uint64_t **offsets) {
    const struct text_table *table = &trace->texts[which == PLN_TRACE_LABELS];
    *bytes = table->bytes;
    *offsets = table->offsets;
    return table->count;
}

static int status_of(enum json_result result) {
    return result == JSON_OK ? GO_ON : result == JSON_MORE ? PLN_TRACE_MORE : PLN_TRACE_BAD;
}

static bool keep(struct pln_trace *trace, struct member member) {
    if (trace->rest_count == trace->rest_room) {
        size_t room = trace->rest_room ? trace->rest_room * 2 : 32;
        struct member *rest = realloc(trace->rest, room * sizeof *rest);
        if (!rest)
            return false;
        trace->rest = rest;
        trace->rest_room = room;
    }
    trace->rest[trace->rest_count++] = member;
    return true;
}

/* The member number `place` of an object, up to its value. Sets *closed at the closing bracket, which it consumes. */
static int next_member(struct json_cursor *cursor, size_t place, struct key_memo *memos, struct json_slice *key,
                       bool *closed) {
    const uint8_t *begin = cursor->at;
    if (place < KEY_MEMOS && key_memo_matches(&memos[place], cursor, key))
        return GO_ON;
    if (!json_skip_space(cursor))
        return PLN_TRACE_MORE;
    if (*cursor->at == '}') {
        cursor->at++;
        *closed = true;
        return GO_ON;
    }
    if (place) {
        if (*cursor->at != ',')
            return PLN_TRACE_BAD;
        cursor->at++;
        if (!json_skip_space(cursor))
            return PLN_TRACE_MORE;
    }
    int status = status_of(json_key(cursor, key));
    if (status == GO_ON && place < KEY_MEMOS)
        key_memo_take(&memos[place], begin, cursor->at, *key);
    return status;
}

static int read_args(struct pln_trace *trace, struct json_cursor *cursor, bool *too_deep) {
    cursor->at++;
    bool closed = false;
    for (size_t place = 0;; place++) {
        struct member member;
        int status = next_member(cursor, place, trace->arg_memos, &member.key, &closed);
        if (status != GO_ON || closed)
            return status;
        bool is_deep = false;
        status = status_of(json_value(cursor, &member.value, &is_deep));
        if (status != GO_ON)
            return status;
        *too_deep |= is_deep;
        if (!is_deep && !keep(trace, member))
            return PLN_TRACE_MEMORY;
    }
}

static struct json_slice *part_of(struct parts *parts, struct json_slice key) {
    switch (key.size) {
    case 2:
        if (IS(key, "sf"))
            return &parts->frame;
        return IS(key, "ph") ? &parts->phase : IS(key, "ts") ? &parts->ts : IS(key, "id") ? &parts->id : NULL;
    case 3:
        if (IS(key, "id2"))
            return &parts->id;
        if (IS(key, "cat"))
            return &parts->category;
        return IS(key, "dur") ? &parts->dur : IS(key, "pid") ? &parts->pid : IS(key, "tid") ? &parts->tid : NULL;
    case 4:
        return IS(key, "name") ? &parts->name : NULL;
    default:
        return NULL;
    }
}

/* From the opening bracket to behind the closing one. */
static int read_parts(struct pln_trace *trace, struct json_cursor *cursor, struct parts *parts, bool *too_deep) {
    trace->rest_count = 0;
    cursor->at++;
    bool closed = false;
    for (size_t place = 0;; place++) {
        struct member member;
        int status = next_member(cursor, place, trace->part_memos, &member.key, &closed);
        if (status != GO_ON || closed)
            return status;
        if (*cursor->at == '{' && IS(member.key, "args")) {
            status = read_args(trace, cursor, too_deep);
            if (status != GO_ON)
                return status;
            continue;
        }
        bool is_deep = false;
        status = status_of(json_value(cursor, &member.value, &is_deep));
        if (status != GO_ON)
            return status;
        *too_deep |= is_deep;
        struct json_slice *part = part_of(parts, member.key);
        if (part)
            *part = member.value;
        else if (!is_deep && !IS(member.key, "bp") && !IS(member.key, "s") && !keep(trace, member))
            return PLN_TRACE_MEMORY;
    }
}

static int read_event(struct pln_trace *trace, struct json_cursor *cursor, struct pln_trace_event *events, size_t room,
                      struct pln_trace_step *step) {
    struct parts parts = {0};
    bool too_deep = false;
    if (step->events == room)
        return PLN_TRACE_FULL;
    int status = read_parts(trace, cursor, &parts, &too_deep);
    if (status != GO_ON)
        return status;
    trace->has_read_one = true;
    uint8_t phase = parts.phase.size == 3 ? parts.phase.at[1] : 0;
    if (phase == 's' || phase == 't' || phase == 'f') {
        trace->flows++;
        return GO_ON;
    }
    if (phase == 'C') {
        trace->counters++;
        return GO_ON;
    }
    struct pln_trace_event *event = &events[step->events];
    *event = (struct pln_trace_event){
        .sequence_nr = -1, .device = -1, .flags = too_deep ? PLN_TRACE_TOO_DEEP : 0, .phase = phase};
    if (!trace_fill(trace, &parts, event))
        return PLN_TRACE_MEMORY;
    step->events++;
    return GO_ON;
}

/* Something among the events that is none, as null: an event without a phase stands for it. */
static int read_other(struct json_cursor *cursor, struct pln_trace_event *events, size_t room,
                      struct pln_trace_step *step) {
    struct json_slice value;
    bool too_deep = false;
    if (step->events == room)
        return PLN_TRACE_FULL;
    int status = status_of(json_value(cursor, &value, &too_deep));
    if (status == GO_ON)
        events[step->events++] = (struct pln_trace_event){.sequence_nr = -1, .device = -1};
    return status;
}

/* A member of the object that holds the events. */
static int read_member(struct pln_trace *trace, struct json_cursor *cursor, const uint8_t *data,
                       struct pln_trace_step *step) {
    struct json_slice key, value;
    bool too_deep = false;
    int status = status_of(json_key(cursor, &key));
    if (status != GO_ON)
        return status;
    if (*cursor->at == '[' && IS(key, "traceEvents")) {
        cursor->at++;
        trace->state = EVENTS;
        trace->has_events = true;
        return GO_ON;
    }
    status = status_of(json_value(cursor, &value, &too_deep));
    if (status != GO_ON)
        return status;
    if (too_deep)
        value.size = 0;
    step->key_at = (size_t)(key.at - 1 - data);
    step->key_size = key.size + 2;
    step->value_at = (size_t)(value.at - data);
    step->value_size = value.size;
    return PLN_TRACE_MEMBER;
}

/* The next event, member or bracket; between them commas count as white space. */
static int advance(struct pln_trace *trace, struct json_cursor *cursor, const uint8_t *data,
                   struct pln_trace_event *events, size_t room, struct pln_trace_step *step) {
    if (trace->state == END)
        return PLN_TRACE_END;
    while (json_skip_space(cursor) && *cursor->at == ',' && trace->state != START)
        cursor->at++;
    step->consumed = (size_t)(cursor->at - data);
    if (cursor->at == cursor->end)
        return PLN_TRACE_MORE;
    uint8_t c = *cursor->at;
    if (trace->state == START) {
        trace->is_array = trace->has_events = c == '[';
        trace->state = c == '[' ? EVENTS : MEMBERS;
        cursor->at++;
        return c == '[' || c == '{' ? GO_ON : PLN_TRACE_BAD;
    }
    if (trace->state == EVENTS && c == '{')
        return read_event(trace, cursor, events, room, step);
    if (c == (trace->state == EVENTS ? ']' : '}')) {
        trace->state = trace->state == EVENTS && !trace->is_array ? MEMBERS : END;
        cursor->at++;
        return GO_ON;
    }
    if (trace->state == MEMBERS)
        return read_member(trace, cursor, data, step);
    return trace->has_read_one ? read_other(cursor, events, room, step) : PLN_TRACE_BAD;
}

int pln_trace_feed(struct pln_trace *trace, const uint8_t *data, size_t size, struct pln_trace_event *events,
                   size_t room, struct pln_trace_step *step) {
    struct json_cursor cursor = {data, data + size};
    *step = (struct pln_trace_step){0};
    int status;
    do {
        status = advance(trace, &cursor, data, events, room, step);
        if (status == GO_ON || status == PLN_TRACE_MEMBER)
            step->consumed = (size_t)(cursor.at - data);
    } while (status == GO_ON);
    return status;
}
