/* SPDX-License-Identifier: Apache-2.0
 *
 * What an NVTX event says: its attributes, as nvtxTypes.h lays them out, taken apart for a record.
 */
#ifndef PLN_NVTX_EVENT_H
#define PLN_NVTX_EVENT_H

#include <wchar.h>

#include "annotation.h"

/* nvtxEventAttributes_t. */
struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double real;
        uint32_t u32;
        int32_t i32;
        float single;
    } payload;
    int32_t message_type;
    uint32_t padding;
    const void *message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "as nvtxEventAttributes_v2 on 64-bit machines");

extern struct pln_domain *pln_nvtx_domains;

/* A null handle is the default domain, whose name is empty. */
struct pln_domain *pln_nvtx_domain(struct pln_domain *handle);

/* Of an event with attributes; attributes that are none give a nameless event. */
struct pln_annotation pln_nvtx_event(struct pln_domain *domain, const struct nvtx_attributes *attributes);

/* Of an event of the default domain that has a text only. */
struct pln_annotation pln_nvtx_text(const char *text);
struct pln_annotation pln_nvtx_wide_text(const wchar_t *wide);

#endif
