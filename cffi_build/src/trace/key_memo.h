/* Writers give the members of event after event the same keys, in the same order and with the same white space: what was
 * between two values last time is there again. One comparison then does for reading a key. */
#ifndef PILLION_KEY_MEMO_H
#define PILLION_KEY_MEMO_H

#include <string.h>

#include "json_scan.h"

#define KEY_MEMOS 24 /* members of an object that are remembered, by their place */

/* What is before a value: separator, white space, key and colon. */
struct key_memo {
    uint8_t size; /* 0: nothing yet */
    uint8_t key_at;
    uint8_t key_size;
    uint8_t bytes[61];
};

/* Steps over what is remembered, if it is what comes, up to a value that begins there. */
static inline bool key_memo_matches(const struct key_memo *memo, struct json_cursor *cursor, struct json_slice *key) {
    size_t left = (size_t)(cursor->end - cursor->at);
    if (!memo->size || left <= memo->size || memcmp(cursor->at, memo->bytes, memo->size) ||
        cursor->at[memo->size] <= ' ')
        return false;
    *key = (struct json_slice){cursor->at + memo->key_at, memo->key_size};
    cursor->at += memo->size;
    return true;
}

/* Remembers what is from begin up to a value at end, unless it is too long. */
static inline void key_memo_take(struct key_memo *memo, const uint8_t *begin, const uint8_t *end,
                                 struct json_slice key) {
    size_t size = (size_t)(end - begin);
    if (size > sizeof memo->bytes)
        return;
    memcpy(memo->bytes, begin, size);
    memo->size = (uint8_t)size;
    memo->key_at = (uint8_t)(key.at - begin);
    memo->key_size = (uint8_t)key.size;
}

#endif
