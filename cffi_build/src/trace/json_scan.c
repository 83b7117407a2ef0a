#include "json_scan.h"

#include <string.h>

/* The next quote or backslash, or the end. */
static const uint8_t *string_stop(const uint8_t *at, const uint8_t *end) {
    while (end - at >= 8) { /* eight bytes at a time: most of a trace is inside of strings */
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t found = json_has_byte(word, '"') | json_has_byte(word, '\\');
        if (found)
            return at + __builtin_ctzll(found) / 8;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

static bool is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

enum json_result json_long_string(struct json_cursor *cursor, struct json_slice *text, bool *escaped) {
    const uint8_t *begin = cursor->at + 1, *at = begin;
    *escaped = false;
    for (;;) {
        at = string_stop(at, cursor->end);
        if (at == cursor->end)
            return JSON_MORE;
        if (*at == '"')
            break;
        *escaped = true;
        size_t size = at + 1 < cursor->end && at[1] == 'u' ? 6 : 2;
        if ((size_t)(cursor->end - at) < size)
            return JSON_MORE;
        if (!strchr("\"\\/bfnrtu", at[1]) || !at[1])
            return JSON_BAD;
        for (size_t digit = 2; digit < size; digit++)
            if (!is_hex(at[digit]))
                return JSON_BAD;
        at += size;
    }
    *text = (struct json_slice){begin, (size_t)(at - begin)};
    cursor->at = at + 1;
    return JSON_OK;
}

static const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end) {
    while (at < end && (uint8_t)(*at - '0') < 10)
        at++;
    return at;
}

const uint8_t *json_number_end(const uint8_t *at, const uint8_t *end) {
    at += at < end && *at == '-';
    const uint8_t *digits = at;
    at = skip_digits(at, end);
    if (at == digits || (*digits == '0' && at - digits > 1))
        return NULL;
    if (at < end && *at == '.') {
        digits = at + 1;
        at = skip_digits(digits, end);
        if (at == digits)
            return NULL;
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        at += at < end && (*at == '-' || *at == '+');
        digits = at;
        at = skip_digits(digits, end);
        if (at == digits)
            return NULL;
    }
    return at;
}

static bool ends_scalar(uint8_t c) {
    return c == ',' || c == '}' || c == ']' || c <= ' ';
}

/* What JSON knows besides numbers, and what Python's json and many others write and read for what is no number. */
static bool is_word(const uint8_t *at, const uint8_t *end) {
    static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((size_t)(end - at) == strlen(words[i]) && !memcmp(at, words[i], (size_t)(end - at)))
            return true;
    return false;
}

static enum json_result skip_scalar(struct json_cursor *cursor) {
    const uint8_t *at = json_number_end(cursor->at, cursor->end);
    bool is_known = at && at < cursor->end && ends_scalar(*at);
    if (!is_known) {
        at = cursor->at;
        while (at < cursor->end && !ends_scalar(*at))
            at++;
        if (at == cursor->end) /* it may go on */
            return JSON_MORE;
        if (!is_word(cursor->at, at))
            return JSON_BAD;
    }
    cursor->at = at;
    return JSON_OK;
}

enum json_result json_key(struct json_cursor *cursor, struct json_slice *key) {
    bool escaped;
    if (*cursor->at != '"')
        return JSON_BAD;
    enum json_result result = json_string(cursor, key, &escaped);
    if (result != JSON_OK)
        return result;
    if (!json_skip_space(cursor))
        return JSON_MORE;
    if (*cursor->at != ':')
        return JSON_BAD;
    cursor->at++;
    return json_skip_space(cursor) ? JSON_OK : JSON_MORE;
}

/* Brackets alone: from depth open ones to none. */
static enum json_result skip_brackets(struct json_cursor *cursor, uint64_t depth) {
    struct json_slice text;
    bool escaped;
    while (depth) {
        if (cursor->at == cursor->end)
            return JSON_MORE;
        uint8_t c = *cursor->at;
        if (c == '"') {
            enum json_result result = json_string(cursor, &text, &escaped);
            if (result != JSON_OK)
                return result;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        cursor->at++;
    }
    return JSON_OK;
}

static enum json_result skip_container(struct json_cursor *cursor, bool *too_deep) {
    bool is_object[JSON_DEPTH];
    unsigned depth = 0;
    bool needs_value = true; /* in a container that has just been opened, and after a comma */
    struct json_slice text;
    bool escaped;
    do {
        if (!json_skip_space(cursor))
            return JSON_MORE;
        uint8_t c = *cursor->at;
        bool closes = c == '}' || c == ']';
        if (closes) {
            if (!depth || is_object[depth - 1] != (c == '}'))
                return JSON_BAD;
            depth--;
            cursor->at++;
            needs_value = false;
            continue;
        }
        if (!needs_value) {
            if (c != ',')
                return JSON_BAD;
            cursor->at++;
            if (!json_skip_space(cursor))
                return JSON_MORE;
            if (*cursor->at == '}' || *cursor->at == ']')
                return JSON_BAD;
            needs_value = true;
            continue;
        }
        enum json_result result = JSON_OK;
        if (depth && is_object[depth - 1] && (result = json_key(cursor, &text)) != JSON_OK)
            return result;
        c = *cursor->at;
        if (c == '{' || c == '[') {
            if (depth == JSON_DEPTH) {
                *too_deep = true;
                return skip_brackets(cursor, depth);
            }
            is_object[depth++] = c == '{';
            cursor->at++;
            continue;
        }
        result = c == '"' ? json_string(cursor, &text, &escaped) : skip_scalar(cursor);
        if (result != JSON_OK)
            return result;
        needs_value = false;
    } while (depth);
    return JSON_OK;
}

enum json_result json_value(struct json_cursor *cursor, struct json_slice *value, bool *too_deep) {
    const uint8_t *begin = cursor->at;
    struct json_slice text;
    bool escaped;
    enum json_result result;
    if (*begin == '"')
        result = json_string(cursor, &text, &escaped);
    else if (*begin == '{' || *begin == '[')
        result = skip_container(cursor, too_deep);
    else
        result = skip_scalar(cursor);
    *value = (struct json_slice){begin, (size_t)(cursor->at - begin)};
    return result;
}
