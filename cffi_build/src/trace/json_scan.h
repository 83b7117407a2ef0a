/* Steps over JSON in a buffer that may end anywhere. Nothing recurses, and nothing is copied. */
#ifndef PILLION_JSON_SCAN_H
#define PILLION_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Every byte of a word 1, or 0x80. */
#define JSON_ONES 0x0101010101010101ull
#define JSON_HIGHS 0x8080808080808080ull

enum json_result {
    JSON_OK,
    JSON_MORE, /* the buffer ends before the value does */
    JSON_BAD,
};

struct json_slice {
    const uint8_t *at;
    size_t size;
};

struct json_cursor {
    const uint8_t *at;
    const uint8_t *end;
};

/* Values nested more deeply are stepped over by their brackets alone. */
#define JSON_DEPTH 128

/* Whether anything follows the white space, as which every control character counts. */
static inline bool json_skip_space(struct json_cursor *cursor) {
    const uint8_t *at = cursor->at, *end = cursor->end;
    while (end - at >= 8 && *at <= ' ') { /* eight bytes at a time: traces are indented */
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t above = (((word & ~JSON_HIGHS) + JSON_ONES * (0x7f - ' ')) | word) & JSON_HIGHS;
        at += above ? __builtin_ctzll(above) / 8 : 8;
    }
    while (at < end && *at <= ' ')
        at++;
    cursor->at = at;
    return at < end;
}

/* From the opening quote to behind the closing one; text is what is between. Raw control characters are let pass:
 * writers forget to escape them. */
enum json_result json_long_string(struct json_cursor *cursor, struct json_slice *text, bool *escaped);

/* Bytes of the word that are this one: the lowest bit that is set is right, those above it may be too many. */
static inline uint64_t json_has_byte(uint64_t word, uint8_t byte) {
    uint64_t different = word ^ (JSON_ONES * byte);
    return (different - JSON_ONES) & ~different & JSON_HIGHS;
}

/* Nearly all strings end within 16 bytes and have no escapes: these without a call. */
static inline enum json_result json_string(struct json_cursor *cursor, struct json_slice *text, bool *escaped) {
    const uint8_t *begin = cursor->at + 1;
    for (const uint8_t *at = begin; at <= begin + 8 && cursor->end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t found = json_has_byte(word, '"') | json_has_byte(word, '\\');
        if (!found)
            continue;
        const uint8_t *stop = at + __builtin_ctzll(found) / 8;
        if (*stop != '"')
            break;
        *text = (struct json_slice){begin, (size_t)(stop - begin)};
        *escaped = false;
        cursor->at = stop + 1;
        return JSON_OK;
    }
    return json_long_string(cursor, text, escaped);
}

/* Any value, as it is written. A value that is too deep is valid only as far as brackets go. */
enum json_result json_value(struct json_cursor *cursor, struct json_slice *value, bool *too_deep);

/* The key of an object's next member, up to behind its colon. */
enum json_result json_key(struct json_cursor *cursor, struct json_slice *key);

/* The end of the number that begins there, NULL where there is none. */
const uint8_t *json_number_end(const uint8_t *at, const uint8_t *end);

/* Writes the text without its escapes to room for text.size bytes; returns its new size. What is no character becomes
 * U+FFFD. */
size_t json_unescape(struct json_slice text, uint8_t *into);

/* The slice as an integer; a quoted one counts. False where it is none or does not fit. */
bool json_integer(struct json_slice value, int64_t *number);

/* The slice, in microseconds, as ns; a quoted one counts. False where it is no number or does not fit. */
bool json_microseconds(struct json_slice value, int64_t *time_ns);

#endif
