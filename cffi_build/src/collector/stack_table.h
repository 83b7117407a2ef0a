/* Stacks to small ids, per session. */
#ifndef PILLION_STACK_TABLE_H
#define PILLION_STACK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct pln_stack_table *stack_table_new(void);
void stack_table_free(struct pln_stack_table *table);

/* The id of a stack by its 64-bit hash, 1, 2, …; *fresh says whether it is new. 0 when the table is full.
 * Two of a million different stacks share a hash with a probability of 3e-8. */
uint32_t stack_table_intern(struct pln_stack_table *table, uint64_t hash, bool *fresh);

static inline uint64_t stack_hash_add(uint64_t hash, uint64_t word) {
    /* The multiply-xorshift step of splitmix64's finaliser (Steele, Lea, Flood 2014). */
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9;
    return hash ^ hash >> 29;
}

#endif
