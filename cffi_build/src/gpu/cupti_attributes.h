/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record tells besides the fields of pln_activity: a JSON object, as a string of the region. A job has few
 * different ones: its launch configurations.
 */
#ifndef PLN_CUPTI_ATTRIBUTES_H
#define PLN_CUPTI_ATTRIBUTES_H

#include <stddef.h>
#include <stdint.h>

#define ATTRIBUTE_WORDS 16

/* What an object is made of. Two with the same words and the same write function are the same object. */
struct attributes {
    size_t (*write)(const uint32_t *words, char *json, size_t room); /* as snprintf() */
    uint32_t words[ATTRIBUTE_WORDS];
};

/* The string's id. */
uint32_t cupti_attributes_id(const struct attributes *attributes);

/* By kind of record. */
struct attributes cupti_kernel_attributes(const uint8_t *record);
struct attributes cupti_copy_attributes(const uint8_t *record);
struct attributes cupti_peer_copy_attributes(const uint8_t *record);
struct attributes cupti_set_attributes(const uint8_t *record);
struct attributes cupti_memory_attributes(const uint8_t *record);
struct attributes cupti_migration_attributes(const uint8_t *record);
struct attributes cupti_device_attributes(const uint8_t *record);
struct attributes cupti_thread_attributes(uint32_t pid, uint32_t tid);

#endif
