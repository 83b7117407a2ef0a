/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys are those that the importers give the same things. What is 0 goes without saying, but for kernels.
 */
#define _GNU_SOURCE
#include "cupti_attributes.h"

#include <stdarg.h>
#include <stdio.h>

#include "../job/process.h"
#include "cupti_fields.h"

#define JSON_BYTES 512
#define CACHE_SLOTS 1024u /* 80 KB; a training step has some hundred different kernels and configurations */

struct slot {
    struct attributes attributes;
    uint32_t generation; /* of id; 0: empty */
    uint32_t id;
};

static struct slot cache[CACHE_SLOTS];

static uint32_t slot_of(const struct attributes *attributes) {
    uint64_t hash = (uintptr_t)attributes->write;
    for (unsigned i = 0; i < ATTRIBUTE_WORDS; i += 2) {
        uint64_t two = (uint64_t)attributes->words[i] << 32 | attributes->words[i + 1];
        hash = (hash ^ two) * 0x9e3779b97f4a7c15u; /* 2^64 / the golden ratio: spreads neighbours */
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32) % CACHE_SLOTS;
}

uint32_t cupti_attributes_id(const struct attributes *attributes) {
    if (attributes->write == NULL)
        return 0;
    struct slot *slot = &cache[slot_of(attributes)];
    if (PLN_LIKELY(slot->generation == pln_process.generation &&
                   memcmp(&slot->attributes, attributes, sizeof *attributes) == 0))
        return slot->id;
    char json[JSON_BYTES];
    size_t size = attributes->write(attributes->words, json, sizeof json);
    *slot = (struct slot){*attributes, pln_process.generation, size < sizeof json ? pln_intern(json, size) : 0};
    return slot->id;
}

/* ---- JSON ---- */

struct object {
    char *json;
    size_t room;
    size_t size; /* may exceed room, as with snprintf() */
};

static __attribute__((format(printf, 3, 4))) void member(struct object *object, const char *name, const char *format,
                                                         ...) {
    char value[96];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    size_t at = object->size < object->room ? object->size : object->room;
    int more =
        snprintf(object->json + at, object->room - at, "%s\"%s\":%s", object->size == 0 ? "{" : ",", name, value);
    object->size += more > 0 ? (size_t)more : 0;
}

static void nonzero(struct object *object, const char *name, uint64_t value) {
    if (value != 0)
        member(object, name, "%llu", (unsigned long long)value);
}

/* An object without members is no string at all. */
static size_t finish(struct object *object) {
    if (object->size == 0)
        return 0;
    if (object->size + 1 < object->room)
        object->json[object->size] = '}';
    return object->size + 1;
}

static uint64_t wide(const uint32_t *words) {
    return (uint64_t)words[1] << 32 | words[0];
}

/* ---- kernels ---- */

enum { REGISTERS, SHARED, LOCAL, GRID_X, BLOCK_X = GRID_X + 3, CLUSTER_X = BLOCK_X + 3, GRAPH = CLUSTER_X + 3, NODE };

static size_t write_kernel(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    const uint32_t *grid = words + GRID_X, *block = words + BLOCK_X, *cluster = words + CLUSTER_X;
    member(&object, "registers per thread", "%u", words[REGISTERS]);
    member(&object, "shared memory", "%u", words[SHARED]);
    member(&object, "grid", "[%d,%d,%d]", (int)grid[0], (int)grid[1], (int)grid[2]);
    member(&object, "block", "[%d,%d,%d]", (int)block[0], (int)block[1], (int)block[2]);
    nonzero(&object, "local memory per thread", words[LOCAL]);
    if (cluster[0] != 0)
        member(&object, "cluster", "[%u,%u,%u]", cluster[0], cluster[1], cluster[2]);
    nonzero(&object, "graph id", words[GRAPH]);
    nonzero(&object, "graph node id", wide(words + NODE));
    return finish(&object);
}

struct attributes cupti_kernel_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_kernel};
    uint32_t *words = made.words;
    words[REGISTERS] = field_u16(record, 6);
    words[SHARED] = field_u32(record, 76) + field_u32(record, 80);
    words[LOCAL] = field_u32(record, 84);
    memcpy(words + GRID_X, record + 52, 6 * sizeof *words); /* grid and block */
    memcpy(words + CLUSTER_X, record + 176, 3 * sizeof *words);
    words[GRAPH] = field_u32(record, 156);
    memcpy(words + NODE, record + 144, 2 * sizeof *words);
    return made;
}

/* ---- copies ---- */

static const char *memory_name(uint32_t kind) {
    static const char *const names[] = {"unknown", "pageable", "pinned",        "device",
                                        "array",   "managed",  "device static", "managed static"};
    return kind < sizeof names / sizeof *names ? names[kind] : names[0];
}

static size_t write_copy(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "src kind", "\"%s\"", memory_name(words[0]));
    member(&object, "dst kind", "\"%s\"", memory_name(words[1]));
    nonzero(&object, "asynchronous", words[2]);
    nonzero(&object, "graph id", words[3]);
    nonzero(&object, "graph node id", wide(words + 4));
    return finish(&object);
}

struct attributes cupti_copy_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_copy};
    made.words[0] = field_u8(record, 5);
    made.words[1] = field_u8(record, 6);
    made.words[2] = field_u8(record, 7) & 1;
    made.words[3] = field_u32(record, 72);
    memcpy(made.words + 4, record + 64, 2 * sizeof *made.words);
    return made;
}

static size_t write_peer_copy(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "src device", "%u", words[0]);
    member(&object, "src context", "%u", words[1]);
    member(&object, "dst device", "%u", words[2]);
    member(&object, "dst context", "%u", words[3]);
    return finish(&object);
}

struct attributes cupti_peer_copy_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_peer_copy};
    memcpy(made.words, record + 44, 4 * sizeof *made.words);
    return made;
}

static size_t write_set(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "value", "%u", words[0]);
    member(&object, "memory kind", "\"%s\"", memory_name(words[1]));
    nonzero(&object, "graph id", words[2]);
    nonzero(&object, "graph node id", wide(words + 3));
    return finish(&object);
}

struct attributes cupti_set_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_set};
    made.words[0] = field_u32(record, 4);
    made.words[1] = field_u16(record, 50);
    made.words[2] = field_u32(record, 72);
    memcpy(made.words + 3, record + 64, 2 * sizeof *made.words);
    return made;
}

/* ---- memory ---- */

static size_t write_memory(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "address", "%llu", (unsigned long long)wide(words));
    member(&object, "memory kind", "\"%s\"", memory_name(words[2]));
    nonzero(&object, "asynchronous", words[3]);
    return finish(&object);
}

struct attributes cupti_memory_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_memory};
    memcpy(made.words, record + 16, 2 * sizeof *made.words);
    made.words[2] = field_u32(record, 8);
    made.words[3] = field_u32(record, 72) != 0;
    return made;
}

static size_t write_migration(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "address", "%llu", (unsigned long long)wide(words));
    member(&object, "src device", "%u", words[2]);
    member(&object, "dst device", "%u", words[3]);
    return finish(&object);
}

struct attributes cupti_migration_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_migration};
    memcpy(made.words, record + 32, 4 * sizeof *made.words);
    return made;
}

/* ---- places ---- */

static size_t write_device(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    uint8_t uuid[16];
    char text[64], *at = text;
    memcpy(uuid, words + 5, sizeof uuid);
    for (unsigned i = 0; i < sizeof uuid; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    member(&object, "totalGlobalMem", "%llu", (unsigned long long)wide(words));
    member(&object, "computeMajor", "%u", words[2]);
    member(&object, "computeMinor", "%u", words[3]);
    member(&object, "numSms", "%u", words[4]);
    member(&object, "uuid", "\"GPU-%s\"", text);
    return finish(&object);
}

struct attributes cupti_device_attributes(const uint8_t *record) {
    struct attributes made = {.write = write_device};
    memcpy(made.words, record + 16, 2 * sizeof *made.words);
    made.words[2] = field_u32(record, 104);
    made.words[3] = field_u32(record, 108);
    made.words[4] = field_u32(record, 44);
    memcpy(made.words + 5, record + 120, 16);
    return made;
}

static size_t write_thread(const uint32_t *words, char *json, size_t room) {
    struct object object = {json, room, 0};
    member(&object, "pid", "%u", words[0]);
    member(&object, "tid", "%u", words[1]);
    return finish(&object);
}

struct attributes cupti_thread_attributes(uint32_t pid, uint32_t tid) {
    return (struct attributes){.write = write_thread, .words = {pid, tid}};
}
