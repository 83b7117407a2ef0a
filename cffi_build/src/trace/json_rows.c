#include "json_rows.h"

#include <stdbool.h>
#include <string.h>

#define DIGITS_MAX 20 /* of 64 bits; microseconds take a point and a sign more */

static const char pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
    "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
    "9899";

static uint8_t *put(uint8_t *out, const uint8_t *from, size_t size) {
    memcpy(out, from, size);
    return out + size;
}

static uint8_t *put_digits(uint8_t *out, uint64_t number) {
    uint8_t digits[DIGITS_MAX], *at = digits + DIGITS_MAX;
    while (number >= 100) {
        memcpy(at -= 2, pairs + number % 100 * 2, 2);
        number /= 100;
    }
    if (number >= 10)
        memcpy(at -= 2, pairs + number * 2, 2);
    else
        *--at = (uint8_t)('0' + number);
    return put(out, at, (size_t)(digits + DIGITS_MAX - at));
}

static uint64_t magnitude(int64_t number) {
    return number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
}

static uint8_t *put_microseconds(uint8_t *out, int64_t time_ns) {
    uint64_t ns = magnitude(time_ns), part = ns % 1000;
    if (time_ns < 0)
        *out++ = '-';
    out = put_digits(out, ns / 1000);
    *out++ = '.';
    *out++ = (uint8_t)('0' + part / 100);
    return put(out, (const uint8_t *)pairs + part % 100 * 2, 2);
}

static uint8_t *put_value(uint8_t *out, const struct pln_piece *piece, int64_t value) {
    switch (piece->kind) {
    case PLN_PIECE_WORD:
        return put(out, piece->words + piece->ends[value], (size_t)(piece->ends[value + 1] - piece->ends[value]));
    case PLN_PIECE_INTEGER:
        if (value < 0)
            *out++ = '-';
        return put_digits(out, magnitude(value));
    case PLN_PIECE_UNSIGNED:
        return put_digits(out, (uint64_t)value);
    case PLN_PIECE_MICROSECONDS:
        return put_microseconds(out, value);
    default:
        return out;
    }
}

static bool has_value(const struct pln_piece *piece) {
    return piece->kind != PLN_PIECE_TEXT && piece->kind != PLN_PIECE_LIST;
}

static bool is_silent(const struct pln_piece *piece, size_t row) {
    return has_value(piece) && piece->has_silent && piece->values[row] == piece->silent;
}

/* Not less than the bytes of a row. */
static size_t row_bound(const struct pln_piece *pieces, size_t count, size_t row) {
    size_t bound = 0;
    for (const struct pln_piece *piece = pieces; piece < pieces + count; piece++) {
        bound += piece->before_size + piece->after_size + DIGITS_MAX + 2;
        if (piece->kind == PLN_PIECE_WORD && !is_silent(piece, row))
            bound += (size_t)(piece->ends[piece->values[row] + 1] - piece->ends[piece->values[row]]);
    }
    return bound;
}

static uint8_t *put_row(uint8_t *out, const struct pln_piece *pieces, size_t count, size_t row) {
    uint8_t *list = NULL; /* where a list begins that is still empty */
    for (const struct pln_piece *piece = pieces; piece < pieces + count; piece++) {
        if (is_silent(piece, row))
            continue;
        uint8_t *begin = out;
        out = put(out, piece->before, piece->before_size);
        if (has_value(piece))
            out = put_value(out, piece, piece->values[row]);
        out = put(out, piece->after, piece->after_size);
        if (begin == list && out > begin && *begin == ',') {
            out--;
            memmove(begin, begin + 1, (size_t)(out - begin));
        }
        if (piece->kind == PLN_PIECE_LIST)
            list = out;
    }
    return out;
}

size_t pln_json_rows(const struct pln_piece *pieces, size_t count, size_t *row, size_t rows, uint8_t *out,
                     size_t room) {
    uint8_t *begin = out;
    while (*row < rows && row_bound(pieces, count, *row) <= room - (size_t)(out - begin))
        out = put_row(out, pieces, count, (*row)++);
    return (size_t)(out - begin);
}
