#include "trace_event.h"

static bool number_of(struct pln_trace *trace, int which, struct json_slice value, uint32_t *number) {
    if (value.size >= 2 && value.at[0] == '"') {
        value = (struct json_slice){value.at + 1, value.size - 2};
        if (value.size && memchr(value.at, '\\', value.size)) {
            trace->scratch.used = 0;
            uint8_t *into = bytes_extend(&trace->scratch, value.size);
            if (!into)
                return false;
            value = (struct json_slice){into, json_unescape(value, into)};
        }
    }
    return text_table_number(&trace->texts[which], value.at, value.size, number);
}

/* What is written as 7.0 without its point. */
static struct json_slice without_zeros(struct json_slice value) {
    size_t end = value.size;
    while (end > 2 && value.at[end - 1] == '0')
        end--;
    bool is_whole = end > 1 && end < value.size && value.at[end - 1] == '.';
    return is_whole ? (struct json_slice){value.at, end - 1} : value;
}

/* A pid or tid: a number, or a text as "stream 7". */
static bool identify(struct pln_trace *trace, struct json_slice value, int64_t *id, uint16_t flag, uint16_t *flags) {
    uint32_t number = 0;
    if (json_integer(value, id) || json_integer(without_zeros(value), id) || !value.size)
        return true;
    *flags |= flag;
    bool known = number_of(trace, PLN_TRACE_LABELS, value, &number);
    *id = number;
    return known;
}

static bool is_device(const struct parts *parts) {
    struct json_slice category = parts->category;
    return IS(category, "\"kernel\"") || IS(category, "\"gpu_memcpy\"") || IS(category, "\"gpu_memset\"") ||
           IS(category, "\"gpu_user_annotation\"") || IS(category, "\"cuda_sync\"") || IS(category, "\"cuda_event\"") ||
           IS(category, "\"mtia_ccp_events\"") || IS(category, "\"Kernel\"") || IS(category, "\"Memcpy\"") ||
           IS(category, "\"Memset\"") || IS(parts->name, "\"[memory]\"");
}

static bool take_device(struct pln_trace_event *event, struct member member, bool *on_host) {
    int64_t number;
    if (!json_integer(member.value, &number))
        return false;
    if (IS(member.key, "device") || IS(member.key, "Device Id")) {
        event->device = number == (int32_t)number ? (int32_t)number : -1;
        return true;
    }
    if (IS(member.key, "Device Type")) { /* of [memory]: 0 is the CPU */
        *on_host = number == 0;
        return false;
    }
    int64_t *field = IS(member.key, "stream")                             ? &event->stream
                     : IS(member.key, "context")                          ? &event->context
                     : IS(member.key, "bytes") || IS(member.key, "Bytes") ? &event->bytes
                                                                          : NULL;
    if (field)
        *field = number;
    return field;
}

/* Takes what has a field of its own out of the rest. Returns false for want of memory. */
static bool take(struct pln_trace *trace, struct pln_trace_event *event, struct member member, bool *taken) {
    struct json_slice key = member.key;
    int64_t number;
    *taken = true;
    if (IS(key, "Ev Idx")) /* the place in the trace, which the table has anyway */
        return true;
    if (IS(key, "External id") || IS(key, "external id"))
        *taken = json_integer(member.value, &event->external_id);
    else if (IS(key, "correlation"))
        *taken = json_integer(member.value, &event->correlation);
    else if (IS(key, "Record function id"))
        *taken = json_integer(member.value, &number) && !number;
    else if (IS(key, "Sequence number"))
        *taken = json_integer(member.value, &event->sequence_nr);
    else if (IS(key, "Fwd thread id"))
        *taken = json_integer(member.value, &event->fwd_thread);
    else if (IS(key, "Input Dims") || IS(key, "Input dims"))
        return number_of(trace, PLN_TRACE_STRINGS, member.value, &event->shapes);
    else if (IS(key, "Call stack"))
        return number_of(trace, PLN_TRACE_LABELS, member.value, &event->stack);
    else
        *taken = false;
    return true;
}

static bool put(struct pln_bytes *into, const void *from, size_t size) {
    void *place = bytes_extend(into, size);
    if (place)
        memcpy(place, from, size);
    return place;
}

/* The rest as a JSON object. */
static bool join_rest(struct pln_trace *trace, int which, uint32_t *number) {
    struct pln_bytes *text = &trace->scratch;
    text->used = 0;
    for (size_t i = 0; i < trace->rest_count; i++) {
        struct member *member = &trace->rest[i];
        if (!put(text, i ? ",\"" : "{\"", 2) || !put(text, member->key.at, member->key.size) || !put(text, "\":", 2) ||
            !put(text, member->value.at, member->value.size))
            return false;
    }
    if (trace->rest_count && !put(text, "}", 1))
        return false;
    return text_table_number(&trace->texts[which], (uint8_t *)text->data, text->used, number);
}

static bool fill_rest(struct pln_trace *trace, struct pln_trace_event *event, bool is_memory) {
    bool on_host = false;
    size_t left = 0;
    if (event->flags & PLN_TRACE_DEVICE && !(event->flags & PLN_TRACE_TID_TEXT) && !is_memory)
        event->stream = event->tid;
    for (size_t i = 0; i < trace->rest_count; i++) {
        struct member member = trace->rest[i];
        bool taken = event->flags & PLN_TRACE_DEVICE && take_device(event, member, &on_host);
        if (!taken && !take(trace, event, member, &taken))
            return false;
        if (!taken)
            trace->rest[left++] = member;
    }
    trace->rest_count = left;
    if (on_host)
        event->device = -1;
    return join_rest(trace, PLN_TRACE_STRINGS, &event->attributes);
}

uint32_t pln_trace_differing(const struct pln_trace_event *events, size_t count) {
    uint64_t different[sizeof *events / 8] = {0}, first[sizeof *events / 8], words[sizeof *events / 8];
    uint32_t bits = 0;
    memcpy(first, events, count ? sizeof *events : 0);
    for (size_t row = 1; row < count; row++) {
        memcpy(words, &events[row], sizeof *events);
        for (size_t i = 0; i < sizeof *events / 8; i++)
            different[i] |= words[i] ^ first[i];
    }
    for (size_t i = 0; i < sizeof *events / 8; i++)
        bits |= (uint32_t)(different[i] != 0) << i;
    return bits;
}

bool trace_fill(struct pln_trace *trace, const struct parts *parts, struct pln_trace_event *event) {
    if (!json_microseconds(parts->ts, &event->start_ns))
        event->flags |= PLN_TRACE_NO_START;
    if (!json_microseconds(parts->dur, &event->duration_ns))
        event->flags |= PLN_TRACE_NO_END;
    if (!identify(trace, parts->pid, &event->pid, PLN_TRACE_PID_TEXT, &event->flags) ||
        !identify(trace, parts->tid, &event->tid, PLN_TRACE_TID_TEXT, &event->flags) ||
        !number_of(trace, PLN_TRACE_LABELS, parts->category, &event->category) ||
        !number_of(trace, PLN_TRACE_LABELS, parts->frame, &event->frame) ||
        !text_table_number(&trace->texts[PLN_TRACE_LABELS], parts->id.at, parts->id.size, &event->id))
        return false;
    if (event->phase == 'M') /* few, and their texts are no names of events */
        return number_of(trace, PLN_TRACE_LABELS, parts->name, &event->name) &&
               join_rest(trace, PLN_TRACE_LABELS, &event->attributes);
    if (is_device(parts))
        event->flags |= PLN_TRACE_DEVICE;
    return number_of(trace, PLN_TRACE_STRINGS, parts->name, &event->name) &&
           fill_rest(trace, event, IS(parts->name, "\"[memory]\""));
}
