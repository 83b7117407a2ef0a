/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes rows of JSON from columns: for exporting traces of gigabytes. It knows no JSON but digits; texts come ready.
 */
#ifndef PILLION_JSON_ROWS_H
#define PILLION_JSON_ROWS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

#define PLN_PIECE_TEXT 0         /* `before` alone, in every row */
#define PLN_PIECE_WORD 1         /* values[row] is the number of a word */
#define PLN_PIECE_INTEGER 2      /* values[row] in decimal digits */
#define PLN_PIECE_UNSIGNED 3     /* the same of an unsigned number */
#define PLN_PIECE_MICROSECONDS 4 /* values[row], in ns, as us with three decimals */
#define PLN_PIECE_LIST 5         /* as TEXT, and of what is written behind it a leading comma is left out */

struct pln_piece {
    const uint8_t *before; /* what a value stands between */
    const uint8_t *after;
    const int64_t *values;
    const uint8_t *words; /* word number i is words[ends[i]] up to words[ends[i + 1]] */
    const int64_t *ends;
    size_t before_size;
    size_t after_size;
    int64_t silent; /* if has_silent, a row with this value has nothing of the piece */
    uint32_t has_silent;
    uint32_t kind;
};

/* Writes rows of `count` pieces from *row on, as long as rows are left and fit into `room`; only whole ones. Returns how
 * many bytes it wrote. */
size_t pln_json_rows(const struct pln_piece *pieces, size_t count, size_t *row, size_t rows, uint8_t *out, size_t room);

#pragma GCC visibility pop

#endif
