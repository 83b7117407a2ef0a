/* SPDX-License-Identifier: Apache-2.0
 *
 * One function for each kind of record. Offsets are CUPTI's.
 */
#define _GNU_SOURCE
#include "cupti_record.h"

#include "../job/process.h"
#include "cupti_attributes.h"
#include "cupti_fields.h"

#define OVERHEAD_HAS_CORRELATION 21 /* the version, that of CUDA 12.3 */
#define NO_DEVICE UINT16_MAX

/* CUpti_ActivityObjectKind */
enum { OBJECT_PROCESS = 1, OBJECT_THREAD = 2, OBJECT_DEVICE = 3, OBJECT_CONTEXT = 4, OBJECT_STREAM = 5 };

static uint16_t device(uint32_t number) {
    return number < NO_DEVICE ? (uint16_t)number : NO_DEVICE;
}

static uint32_t name_id(const char *name) {
    return name != NULL ? pln_intern_cached(name) : 0;
}

static void times(struct pln_activity *activity, const uint8_t *record, size_t start) {
    activity->start_ns = field_u64(record, start);
    activity->end_ns = field_u64(record, start + 8);
}

static void place(struct pln_activity *activity, const uint8_t *record, size_t at) {
    activity->device = device(field_u32(record, at));
    activity->context = field_u32(record, at + 4);
    activity->stream = field_u32(record, at + 8);
}

static void attributes(struct pln_activity *activity, struct attributes made) {
    activity->attributes = cupti_attributes_id(&made);
}

/* ---- work ---- */

static void read_kernel(const uint8_t *record, struct pln_activity *activity) {
    const char *name = field_text(record, 104);
    times(activity, record, 16);
    place(activity, record, 40);
    activity->correlation = field_u32(record, 92);
    activity->name = name_id(name != NULL ? name : "(a kernel without a name)");
    attributes(activity, cupti_kernel_attributes(record));
}

static void read_copy(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u8(record, 4);
    activity->value = field_u64(record, 8);
    times(activity, record, 16);
    place(activity, record, 32);
    activity->correlation = field_u32(record, 44);
    attributes(activity, cupti_copy_attributes(record));
}

static void read_peer_copy(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u8(record, 4);
    activity->value = field_u64(record, 8);
    times(activity, record, 16);
    place(activity, record, 32);
    activity->correlation = field_u32(record, 60);
    attributes(activity, cupti_peer_copy_attributes(record));
}

static void read_set(const uint8_t *record, struct pln_activity *activity) {
    activity->value = field_u64(record, 8);
    times(activity, record, 16);
    place(activity, record, 32);
    activity->correlation = field_u32(record, 44);
    attributes(activity, cupti_set_attributes(record));
}

static void read_graph(const uint8_t *record, struct pln_activity *activity) {
    activity->correlation = field_u32(record, 4);
    times(activity, record, 8);
    activity->device = device(field_u32(record, 24));
    activity->value = field_u32(record, 28);
    activity->context = field_u32(record, 32);
    activity->stream = field_u32(record, 36);
}

/* ---- what the host did ---- */

static void read_call(const uint8_t *record, struct pln_activity *activity) {
    activity->value = field_u32(record, 4);
    times(activity, record, 8);
    activity->correlation = field_u32(record, 32);
    activity->detail = field_u32(record, 36);
    attributes(activity, cupti_thread_attributes(field_u32(record, 24), field_u32(record, 28)));
}

static void read_synchronization(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    times(activity, record, 8);
    activity->correlation = field_u32(record, 24);
    activity->context = field_u32(record, 28);
    activity->stream = field_u32(record, 32);
    activity->value = field_u32(record, 36);
}

/* CUpti_ActivityObjectKindId: a process and a thread, or a device, a context and a stream. */
static void object(struct pln_activity *activity, uint32_t kind, const uint8_t *id) {
    if (kind == OBJECT_PROCESS || kind == OBJECT_THREAD)
        attributes(activity, cupti_thread_attributes(field_u32(id, 0), kind == OBJECT_THREAD ? field_u32(id, 4) : 0));
    if (kind >= OBJECT_DEVICE && kind <= OBJECT_STREAM)
        activity->device = device(field_u32(id, 0));
    if (kind == OBJECT_CONTEXT || kind == OBJECT_STREAM)
        activity->context = field_u32(id, 4);
    if (kind == OBJECT_STREAM)
        activity->stream = field_u32(id, 8);
}

static void read_overhead(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    object(activity, field_u32(record, 8), record + 12);
    times(activity, record, 24);
}

static void read_overhead_with_correlation(const uint8_t *record, struct pln_activity *activity) {
    read_overhead(record, activity);
    activity->correlation = field_u32(record, 40);
}

static void read_external(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    activity->value = field_u64(record, 8);
    activity->correlation = field_u32(record, 16);
}

static void read_event(const uint8_t *record, struct pln_activity *activity) {
    activity->correlation = field_u32(record, 4);
    activity->context = field_u32(record, 8);
    activity->stream = field_u32(record, 12);
    activity->value = field_u32(record, 16);
}

/* ---- memory ---- */

static void read_memory(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    activity->correlation = field_u32(record, 12);
    activity->value = field_u64(record, 24);
    activity->start_ns = activity->end_ns = field_u64(record, 32);
    place(activity, record, 52);
    activity->name = name_id(field_text(record, 64));
    attributes(activity, cupti_memory_attributes(record));
}

static void read_migration(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    activity->value = field_u64(record, 8);
    times(activity, record, 16);
    activity->device = device(field_u32(record, 44));
    activity->stream = field_u32(record, 48);
    attributes(activity, cupti_migration_attributes(record));
}

/* ---- places ---- */

static void read_device(const uint8_t *record, struct pln_activity *activity) {
    activity->device = device(field_u32(record, 112));
    activity->name = name_id(field_text(record, 136));
    attributes(activity, cupti_device_attributes(record));
}

static void read_context(const uint8_t *record, struct pln_activity *activity) {
    activity->context = field_u32(record, 4);
    activity->device = device(field_u32(record, 8));
}

static void read_name(const uint8_t *record, struct pln_activity *activity) {
    activity->detail = field_u32(record, 4);
    object(activity, activity->detail, record + 8);
    activity->name = name_id(field_text(record, 24));
}

/* ---- all of them ---- */

struct layout {
    void (*read)(const uint8_t *record, struct pln_activity *activity);
    uint16_t size; /* what it reads */
    bool timed;    /* without times it says nothing */
};

static const struct layout layouts[] = {
    [1] = {read_copy, 76, true},       [2] = {read_set, 76, true},
    [3] = {read_kernel, 188, true},    [4] = {read_call, 40, true},
    [5] = {read_call, 40, true},       [8] = {read_device, 144, false},
    [9] = {read_context, 12, false},   [10] = {read_kernel, 188, true},
    [11] = {read_name, 32, false},     [17] = {read_overhead_with_correlation, 44, true},
    [22] = {read_peer_copy, 64, true}, [25] = {read_migration, 52, true},
    [36] = {read_event, 20, false},    [38] = {read_synchronization, 40, true},
    [39] = {read_external, 20, false}, [48] = {read_call, 40, true},
    [49] = {read_memory, 76, true},    [51] = {read_graph, 40, true},
};
static const struct layout overhead_before = {read_overhead, 40, true};

enum { OVERHEAD = 17 };

static const struct layout *layout_of(uint32_t kind, uint32_t version) {
    if (kind == OVERHEAD && version < OVERHEAD_HAS_CORRELATION)
        return &overhead_before;
    return kind < sizeof layouts / sizeof *layouts && layouts[kind].read != NULL ? &layouts[kind] : NULL;
}

int pln_cupti_read(const uint8_t *record, size_t room, uint32_t version, struct pln_activity *activity) {
    if (room < sizeof(uint32_t))
        return PLN_CUPTI_SHORT;
    uint32_t kind = field_u32(record, 0);
    const struct layout *layout = layout_of(kind, version);
    if (layout == NULL)
        return PLN_CUPTI_UNKNOWN;
    if (room < layout->size)
        return PLN_CUPTI_SHORT;
    *activity = (struct pln_activity){.kind = PLN_ACTIVITY, .device = NO_DEVICE, .activity = (uint16_t)kind};
    layout->read(record, activity);
    if (layout->timed && activity->start_ns == 0 && activity->end_ns == 0)
        return PLN_CUPTI_UNTIMED;
    if (activity->start_ns != 0 && activity->end_ns == 0)
        activity->flags = PLN_UNFINISHED;
    if (activity->start_ns == 0 || activity->end_ns < activity->start_ns)
        activity->end_ns = activity->start_ns = activity->start_ns != 0 ? activity->start_ns : activity->end_ns;
    return PLN_CUPTI_MADE;
}
