/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX version 3: a job that finds this library in NVTX_INJECTION64_PATH calls InitializeInjectionNvtx2 at its first
 * annotation, once for each shared object that embeds NVTX. Numbers and layouts are those of nvtxTypes.h and
 * nvtxImpl.h, whose binary interface is stable within version 3.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "range_stack.h"

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { PAYLOAD_NONE = 0, MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

typedef void (*function)(void);

struct callbacks_table {
    size_t size;
    int (*get_functions)(int module, function ***table, unsigned *count);
};

/* nvtxEventAttributes_t. */
struct attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    uint32_t padding;
    const void *message;
};
_Static_assert(sizeof(struct attributes) == 48, "as nvtxEventAttributes_v2 on 64-bit machines");

/* What a job gets as nvtxDomainHandle_t or nvtxStringHandle_t. They live as long as the process: an object may use the
 * handle of another. */
struct handle {
    char *text;
    uint32_t id; /* in the region of `generation` */
    uint32_t generation;
};

static struct handle *make_handle(const char *text) {
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle != NULL && (handle->text = strdup(text != NULL ? text : "")) == NULL) {
        free(handle);
        return NULL;
    }
    return handle;
}

/* A fork child has a region of its own, and its own ids. Two threads may do this at once, with the same result. */
static uint32_t handle_id(struct handle *handle) {
    if (handle == NULL)
        return 0;
    uint32_t generation = pln_generation();
    if (PLN_UNLIKELY(__atomic_load_n(&handle->generation, __ATOMIC_ACQUIRE) != generation)) {
        __atomic_store_n(&handle->id, pln_intern(handle->text, strlen(handle->text)), __ATOMIC_RELAXED);
        __atomic_store_n(&handle->generation, generation, __ATOMIC_RELEASE); /* pairs with the acquire above */
    }
    return __atomic_load_n(&handle->id, __ATOMIC_RELAXED);
}

static uint32_t text_id(const char *text) {
    return text != NULL ? pln_intern_cached(text) : 0;
}

static uint32_t message_id(const struct attributes *attributes) {
    if (attributes == NULL || attributes->size < sizeof *attributes)
        return 0;
    if (attributes->message_type == MESSAGE_REGISTERED)
        return handle_id((struct handle *)attributes->message);
    return attributes->message_type == MESSAGE_ASCII ? text_id(attributes->message) : 0;
}

static struct range_details details_of(struct handle *domain, const struct attributes *attributes) {
    struct range_details details = {.source = PLN_SOURCE_NVTX, .domain = handle_id(domain)};
    if (attributes != NULL && attributes->size >= sizeof *attributes) {
        details.category = attributes->category;
        details.payload = attributes->payload_type != PAYLOAD_NONE ? attributes->payload : 0;
    }
    return details;
}

/* ---- push and pop ---- */

static int domain_push(struct handle *domain, const struct attributes *attributes) {
    bool active = pln_active();
    struct range_details details = active ? details_of(domain, attributes) : (struct range_details){0};
    return pln_stack_push(domain, active ? message_id(attributes) : 0, &details);
}

static int domain_pop(struct handle *domain) {
    return pln_stack_pop(domain);
}

static int push_attributes(const struct attributes *attributes) {
    return domain_push(NULL, attributes);
}

static int push_text(const char *text) {
    const struct range_details details = {.source = PLN_SOURCE_NVTX};
    return pln_stack_push(NULL, pln_active() ? text_id(text) : 0, &details);
}

static int pop(void) {
    return pln_stack_pop(NULL);
}

/* ---- start and end: the id is the token's address ---- */

static uint64_t start(uint32_t name, const struct range_details *details) {
    struct pln_token *token = calloc(1, sizeof *token);
    if (token == NULL)
        return 0;
    pln_begin(token, name, details->domain, details->source);
    token->value = details->payload;
    token->scope = details->category;
    return (uint64_t)(uintptr_t)token;
}

static uint64_t domain_start(struct handle *domain, const struct attributes *attributes) {
    if (!pln_active())
        return 0;
    struct range_details details = details_of(domain, attributes);
    return start(message_id(attributes), &details);
}

static uint64_t start_attributes(const struct attributes *attributes) {
    return domain_start(NULL, attributes);
}

static uint64_t start_text(const char *text) {
    const struct range_details details = {.source = PLN_SOURCE_NVTX};
    return pln_active() ? start(text_id(text), &details) : 0;
}

static void end(uint64_t id) {
    struct pln_token *token = (struct pln_token *)(uintptr_t)id;
    if (token == NULL)
        return;
    pln_end(token);
    free(token);
}

static void domain_end(struct handle *domain, uint64_t id) {
    (void)domain;
    end(id);
}

/* ---- marks, names, handles ---- */

static void domain_mark(struct handle *domain, const struct attributes *attributes) {
    if (pln_active())
        pln_mark(message_id(attributes), details_of(domain, attributes).payload, PLN_SOURCE_NVTX);
}

static void mark_attributes(const struct attributes *attributes) {
    domain_mark(NULL, attributes);
}

static void mark_text(const char *text) {
    if (pln_active())
        pln_mark(text_id(text), 0, PLN_SOURCE_NVTX);
}

static struct handle *create_domain(const char *name) {
    return make_handle(name);
}

static struct handle *register_string(struct handle *domain, const char *text) {
    (void)domain;
    return make_handle(text);
}

/* ---- registration ---- */

struct entry {
    unsigned callback;
    function implementation;
};

#define ENTRY(callback, implementation) {callback, (function)(implementation)}

static const struct entry core[] = {
    ENTRY(1, mark_attributes), ENTRY(2, mark_text), ENTRY(4, start_attributes),
    ENTRY(5, start_text),      ENTRY(7, end),       ENTRY(8, push_attributes),
    ENTRY(9, push_text),       ENTRY(11, pop),
};
static const struct entry core2[] = {
    ENTRY(1, domain_mark), ENTRY(2, domain_start),     ENTRY(3, domain_end),     ENTRY(4, domain_push),
    ENTRY(5, domain_pop),  ENTRY(10, register_string), ENTRY(12, create_domain),
};

static bool install(const struct callbacks_table *callbacks, int module, const struct entry *entries, unsigned count) {
    function **table = NULL;
    unsigned size = 0;
    if (!callbacks->get_functions(module, &table, &size) || table == NULL)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (entries[i].callback < size && table[entries[i].callback] != NULL)
            *table[entries[i].callback] = entries[i].implementation;
    return true;
}

/* Non-zero accepts; whatever is not in the tables stays NVTX's own no-op. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t)) {
    const struct callbacks_table *callbacks = get_export_table(TABLE_CALLBACKS);
    if (callbacks == NULL || callbacks->size < sizeof *callbacks)
        return 0;
    bool installed = install(callbacks, MODULE_CORE, core, sizeof core / sizeof *core);
    return install(callbacks, MODULE_CORE2, core2, sizeof core2 / sizeof *core2) && installed;
}
