/* Texts as numbers: equal texts get the same one, in the order of their first use; the empty text is 0. */
#ifndef PILLION_TEXT_TABLE_H
#define PILLION_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_table {
    uint64_t seed; /* texts come from files of others, who must not know what collides */
    uint8_t *bytes;
    size_t bytes_room;
    uint64_t *offsets; /* count + 1 of them */
    uint32_t *hashes;
    size_t count;
    size_t room;
    uint32_t *slots; /* numbers, 0 for free ones */
    size_t mask;
};

bool text_table_init(struct text_table *table);
void text_table_free(struct text_table *table);

/* False when there is no memory, or more than 2^31 texts. */
bool text_table_number(struct text_table *table, const uint8_t *text, size_t size, uint32_t *number);

#endif
