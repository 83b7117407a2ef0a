/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of a record by their offsets, unaligned as they may be.
 */
#ifndef PLN_CUPTI_FIELDS_H
#define PLN_CUPTI_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t field_u8(const uint8_t *record, size_t offset) {
    return record[offset];
}

static inline uint16_t field_u16(const uint8_t *record, size_t offset) {
    uint16_t value;
    memcpy(&value, record + offset, sizeof value);
    return value;
}

static inline uint32_t field_u32(const uint8_t *record, size_t offset) {
    uint32_t value;
    memcpy(&value, record + offset, sizeof value);
    return value;
}

static inline uint64_t field_u64(const uint8_t *record, size_t offset) {
    uint64_t value;
    memcpy(&value, record + offset, sizeof value);
    return value;
}

static inline const char *field_text(const uint8_t *record, size_t offset) {
    return (const char *)(uintptr_t)field_u64(record, offset);
}

#endif
