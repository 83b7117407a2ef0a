/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "nvtx_event.h"

#include <string.h>

enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
enum { PAYLOAD_U64 = 1, PAYLOAD_I64 = 2, PAYLOAD_DOUBLE = 3, PAYLOAD_U32 = 4, PAYLOAD_I32 = 5, PAYLOAD_FLOAT = 6 };

struct pln_domain *pln_nvtx_domains;

struct pln_domain *pln_nvtx_domain(struct pln_domain *handle) {
    static struct pln_domain *default_domain;
    if (handle != NULL)
        return handle;
    struct pln_domain *domain = __atomic_load_n(&default_domain, __ATOMIC_ACQUIRE); /* pairs with the release below */
    if (PLN_UNLIKELY(domain == NULL)) {
        domain = pln_domain_get(&pln_nvtx_domains, "");
        __atomic_store_n(&default_domain, domain, __ATOMIC_RELEASE);
    }
    return domain;
}

static uint32_t text_id(const char *text) {
    return text != NULL ? pln_intern_cached(text) : 0;
}

static uint32_t wide_text_id(const wchar_t *wide) {
    char text[PLN_NARROW_MAX];
    return wide != NULL ? pln_intern_cached(pln_narrow(text, sizeof text, wide)) : 0;
}

static uint32_t message_id(const struct nvtx_attributes *attributes) {
    switch (attributes->message_type) {
    case MESSAGE_REGISTERED:
        return pln_text_id((struct pln_text *)attributes->message);
    case MESSAGE_ASCII:
        return text_id(attributes->message);
    case MESSAGE_UNICODE:
        return wide_text_id(attributes->message);
    default:
        return 0;
    }
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Types beyond these (the payload extension's) hold an address, which tells nothing. */
static uint64_t payload_of(const struct nvtx_attributes *attributes, enum pln_value_kind *kind) {
    int64_t number = 0;
    switch (attributes->payload_type) {
    case PAYLOAD_U64:
        return attributes->payload.u64;
    case PAYLOAD_U32:
        return attributes->payload.u32;
    case PAYLOAD_DOUBLE:
        *kind = PLN_VALUE_DOUBLE;
        return attributes->payload.u64;
    case PAYLOAD_FLOAT:
        *kind = PLN_VALUE_DOUBLE;
        return bits_of((double)attributes->payload.single);
    case PAYLOAD_I64:
        number = attributes->payload.i64;
        break;
    case PAYLOAD_I32:
        number = attributes->payload.i32;
        break;
    }
    *kind = pln_value_kind(number);
    return (uint64_t)number;
}

struct pln_annotation pln_nvtx_event(struct pln_domain *domain, const struct nvtx_attributes *attributes) {
    struct pln_annotation annotation = {.source = PLN_SOURCE_NVTX};
    enum pln_value_kind kind = PLN_VALUE_PLAIN;
    if (attributes != NULL && attributes->size >= sizeof *attributes) {
        annotation.name = message_id(attributes);
        annotation.scope = attributes->category;
        annotation.value = payload_of(attributes, &kind);
    }
    annotation.args = pln_domain_args(pln_nvtx_domain(domain), annotation.scope, kind);
    return annotation;
}

struct pln_annotation pln_nvtx_text(const char *text) {
    return (struct pln_annotation){.source = PLN_SOURCE_NVTX, .name = text_id(text)};
}

struct pln_annotation pln_nvtx_wide_text(const wchar_t *wide) {
    return (struct pln_annotation){.source = PLN_SOURCE_NVTX, .name = wide_text_id(wide)};
}
