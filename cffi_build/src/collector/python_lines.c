/* SPDX-License-Identifier: Apache-2.0
 *
 * CPython's location tables, read in C: importing torch shows the agent a thousand code objects in a second.
 */
#include "symbols.h"

/* Entry codes of Objects/locations.md. Below ONE_LINE0: short forms, on the same line. */
enum { ONE_LINE0 = 10, ONE_LINE2 = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static uint32_t next_byte(struct cursor *cursor) {
    return cursor->at < cursor->end ? *cursor->at++ : 0;
}

static uint32_t next_varint(struct cursor *cursor) {
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
        uint32_t byte = next_byte(cursor);
        value |= (byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static uint32_t next_signed(struct cursor *cursor) {
    uint32_t value = next_varint(cursor);
    return value & 1 ? -(value >> 1) : value >> 1;
}

int32_t pln_python_line(const uint8_t *table, size_t size, int32_t first_line, uint32_t instruction) {
    struct cursor cursor = {table, table + size};
    uint32_t line = (uint32_t)first_line; /* unsigned: a damaged table may overflow it */
    uint32_t covered = 0;
    while (cursor.at < cursor.end) {
        uint32_t head = next_byte(&cursor);
        uint32_t code = head >> 3 & 15;
        covered += (head & 7) + 1;
        if (code < ONE_LINE0) {
            next_byte(&cursor);
        } else if (code <= ONE_LINE2) {
            line += code - ONE_LINE0;
            next_byte(&cursor);
            next_byte(&cursor);
        } else if (code != NONE) {
            line += next_signed(&cursor);
            for (int column = 0; code == LONG && column < 3; column++)
                next_varint(&cursor);
        }
        if (covered > instruction)
            return code == NONE ? first_line : (int32_t)line;
    }
    return first_line;
}
