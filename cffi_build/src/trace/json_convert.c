#include "json_scan.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hex4(const uint8_t *at) {
    uint32_t code = 0;
    for (int i = 0; i < 4; i++)
        code = code * 16 + (uint32_t)(at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    return code;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (uint8_t)code;
    } else if (code < 0x800) {
        *out++ = (uint8_t)(0xc0 | code >> 6);
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (uint8_t)(0xe0 | code >> 12);
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    } else {
        *out++ = (uint8_t)(0xf0 | code >> 18);
        *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (code & 0x3f));
    }
    return out;
}

size_t json_unescape(struct json_slice text, uint8_t *into) {
    static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    const uint8_t *at = text.at, *end = text.at + text.size;
    uint8_t *out = into;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        if (at[1] != 'u') { /* json_string has seen to it that an escape is whole */
            const char *letter = strchr(letters, at[1]);
            *out++ = letter ? (uint8_t)bytes[letter - letters] : at[1];
            at += 2;
            continue;
        }
        uint32_t code = hex4(at + 2);
        at += 6;
        if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
            uint32_t low = hex4(at + 2);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
        }
        out = put_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
    return (size_t)(out - into);
}

static struct json_slice unquoted(struct json_slice value) {
    if (value.size >= 2 && value.at[0] == '"')
        return (struct json_slice){value.at + 1, value.size - 2};
    return value;
}

bool json_integer(struct json_slice value, int64_t *number) {
    struct json_slice digits = unquoted(value);
    bool negative = digits.size && digits.at[0] == '-';
    size_t at = negative;
    if (at == digits.size)
        return false;
    int64_t sum = 0; /* below 0, where there is one number more */
    size_t safe = digits.size < 18 ? digits.size : 18;
    for (; at < digits.size; at++) {
        uint8_t digit = (uint8_t)(digits.at[at] - '0');
        if (digit > 9)
            return false;
        if (at < safe)
            sum = sum * 10 - digit;
        else if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_sub_overflow(sum, digit, &sum))
            return false;
    }
    if (!negative && sum == INT64_MIN)
        return false;
    *number = negative ? sum : -sum;
    return true;
}

/* A point and decimals of a microsecond, or nothing, as ns, rounded; -1 for anything else. */
static int decimals_ns(struct json_slice text) {
    int ns = 0;
    if (!text.size)
        return 0;
    if (text.at[0] != '.' || text.size == 1)
        return -1;
    for (size_t i = 1; i < text.size; i++) {
        int digit = text.at[i] - '0';
        if (digit < 0 || digit > 9)
            return -1;
        ns = i <= 3 ? ns * 10 + digit : ns + (i == 4 && digit >= 5);
    }
    for (size_t i = text.size; i <= 3; i++)
        ns *= 10;
    return ns;
}

bool json_microseconds(struct json_slice value, int64_t *time_ns) {
    struct json_slice digits = unquoted(value);
    size_t whole = 0;
    while (whole < digits.size && digits.at[whole] != '.' && (digits.at[whole] | 0x20) != 'e')
        whole++;
    int64_t us;
    struct json_slice decimals = {digits.at + whole, digits.size - whole};
    int fraction = decimals_ns(decimals); /* of a plain number: exact, however many digits it has */
    if (fraction >= 0 && json_integer((struct json_slice){digits.at, whole}, &us))
        return !__builtin_mul_overflow(us, 1000, time_ns) &&
               !__builtin_add_overflow(*time_ns, digits.at[0] == '-' ? -fraction : fraction, time_ns);
    char text[64];
    if (!digits.size || digits.size >= sizeof text ||
        json_number_end(digits.at, digits.at + digits.size) != digits.at + digits.size)
        return false;
    memcpy(text, digits.at, digits.size);
    text[digits.size] = 0;
    double ns = strtod(text, NULL) * 1e3; /* json_number_end lets only JSON's numbers through */
    if (!(ns > -9.2e18 && ns < 9.2e18))
        return false;
    *time_ns = (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
    return true;
}
