#include "stack_table.h"

#include <stdlib.h>

/* 2^20 stacks of a session: 32 MB at most, half of it full. A day of a training job at 99 Hz shows about 50,000. */
#define MAX_STACKS (1u << 20)

struct slot {
    uint64_t hash;
    uint32_t id; /* 0: free */
};

struct pln_stack_table {
    struct slot *slots;
    uint32_t mask;
    uint32_t count;
};

struct pln_stack_table *stack_table_new(void) {
    struct pln_stack_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->mask = 4095;
    table->slots = calloc(table->mask + 1, sizeof *table->slots);
    if (table->slots)
        return table;
    free(table);
    return NULL;
}

void stack_table_free(struct pln_stack_table *table) {
    if (!table)
        return;
    free(table->slots);
    free(table);
}

static struct slot *find(struct slot *slots, uint32_t mask, uint64_t hash) {
    uint32_t at = (uint32_t)hash & mask;
    while (slots[at].id && slots[at].hash != hash)
        at = (at + 1) & mask;
    return &slots[at];
}

static bool grow(struct pln_stack_table *table) {
    uint32_t mask = table->mask * 2 + 1;
    struct slot *slots = calloc((size_t)mask + 1, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i <= table->mask; i++)
        if (table->slots[i].id)
            *find(slots, mask, table->slots[i].hash) = table->slots[i];
    free(table->slots);
    table->slots = slots;
    table->mask = mask;
    return true;
}

uint32_t stack_table_intern(struct pln_stack_table *table, uint64_t hash, bool *fresh) {
    *fresh = false;
    struct slot *slot = find(table->slots, table->mask, hash);
    if (slot->id)
        return slot->id;
    if (table->count >= MAX_STACKS)
        return 0;
    if (table->count * 2 > table->mask) {
        if (!grow(table))
            return 0;
        slot = find(table->slots, table->mask, hash);
    }
    *fresh = true;
    slot->hash = hash;
    return slot->id = ++table->count;
}
