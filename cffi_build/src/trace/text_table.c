#define _GNU_SOURCE
#include "text_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SLOTS 1024
#define TEXTS_MAX INT32_MAX

bool text_table_init(struct text_table *table) {
    memset(table, 0, sizeof *table);
    if (getrandom(&table->seed, sizeof table->seed, GRND_NONBLOCK) != sizeof table->seed)
        table->seed = (uintptr_t)table;
    table->room = SLOTS / 2;
    table->mask = SLOTS - 1;
    table->bytes_room = 1 << 16;
    table->bytes = malloc(table->bytes_room);
    table->offsets = calloc(table->room + 1, sizeof *table->offsets);
    table->hashes = calloc(table->room, sizeof *table->hashes);
    table->slots = calloc(SLOTS, sizeof *table->slots);
    table->count = 1; /* the empty text */
    return table->bytes && table->offsets && table->hashes && table->slots;
}

void text_table_free(struct text_table *table) {
    free(table->bytes);
    free(table->offsets);
    free(table->hashes);
    free(table->slots);
}

static uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t hash_of(const struct text_table *table, const uint8_t *text, size_t size) {
    uint64_t hash = table->seed ^ size, word;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&word, text, 8);
        hash = mix(hash ^ word, 0x9e3779b97f4a7c15ull);
    }
    word = 0;
    memcpy(&word, text, size);
    hash = mix(mix(hash ^ word, 0x9e3779b97f4a7c15ull), table->seed | 1);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool grow(struct text_table *table) {
    size_t room = table->room * 2, slots = room * 2;
    uint64_t *offsets = realloc(table->offsets, (room + 1) * sizeof *offsets);
    if (offsets)
        table->offsets = offsets;
    uint32_t *hashes = realloc(table->hashes, room * sizeof *hashes);
    if (hashes)
        table->hashes = hashes;
    uint32_t *places = calloc(slots, sizeof *places);
    if (!offsets || !hashes || !places) {
        free(places);
        return false;
    }
    for (size_t number = 1; number < table->count; number++) {
        size_t slot = hashes[number] & (slots - 1);
        while (places[slot])
            slot = (slot + 1) & (slots - 1);
        places[slot] = (uint32_t)number;
    }
    free(table->slots);
    table->slots = places;
    table->mask = slots - 1;
    table->room = room;
    return true;
}

static bool append(struct text_table *table, const uint8_t *text, size_t size) {
    uint64_t used = table->offsets[table->count];
    if (used + size > table->bytes_room) {
        size_t room = table->bytes_room + table->bytes_room / 2 + size;
        uint8_t *bytes = realloc(table->bytes, room);
        if (!bytes)
            return false;
        table->bytes = bytes;
        table->bytes_room = room;
    }
    memcpy(table->bytes + used, text, size);
    table->offsets[table->count + 1] = used + size;
    return true;
}

bool text_table_number(struct text_table *table, const uint8_t *text, size_t size, uint32_t *number) {
    *number = 0;
    if (!size)
        return true;
    uint32_t hash = hash_of(table, text, size);
    size_t slot = hash & table->mask;
    for (uint32_t known; (known = table->slots[slot]); slot = (slot + 1) & table->mask) {
        uint64_t begin = table->offsets[known];
        if (table->hashes[known] == hash && table->offsets[known + 1] - begin == size &&
            !memcmp(table->bytes + begin, text, size)) {
            *number = known;
            return true;
        }
    }
    if (table->count >= TEXTS_MAX || !append(table, text, size))
        return false;
    table->hashes[table->count] = hash;
    table->slots[slot] = (uint32_t)table->count;
    *number = (uint32_t)table->count++;
    return table->count < table->room || grow(table);
}
