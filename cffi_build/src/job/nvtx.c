/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX version 3: a job that finds this library in NVTX_INJECTION64_PATH calls InitializeInjectionNvtx2 at its first
 * annotation, once for each shared object that embeds NVTX. Numbers and layouts are those of nvtxTypes.h and
 * nvtxImpl.h, whose binary interface is stable within version 3. Of domains and registered strings there is one for
 * each text, for all objects of a process: what one pushes another may pop, and destroying a domain destroys nothing.
 * What is not collected (resources, names of devices and streams, synchronization) stays NVTX's own no-op.
 */
#define _GNU_SOURCE
#include "nvtx_event.h"
#include "range_stack.h"
#include "range_table.h"
#include "thread_names.h"

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };

typedef void (*function)(void);

struct callbacks_table {
    size_t size;
    int (*get_functions)(int module, function ***table, unsigned *count);
};

/* ---- push and pop ---- */

static int domain_push(struct pln_domain *domain, const struct nvtx_attributes *attributes) {
    if (!pln_annotation_wanted())
        return pln_stack_skip(domain);
    struct pln_annotation annotation = pln_nvtx_event(domain, attributes);
    return pln_stack_push(domain, &annotation);
}

static int push_attributes(const struct nvtx_attributes *attributes) {
    return domain_push(NULL, attributes);
}

static int push_text(const char *text) {
    if (!pln_annotation_wanted())
        return pln_stack_skip(NULL);
    struct pln_annotation annotation = pln_nvtx_text(text);
    return pln_stack_push(NULL, &annotation);
}

static int push_wide(const wchar_t *text) {
    if (!pln_annotation_wanted())
        return pln_stack_skip(NULL);
    struct pln_annotation annotation = pln_nvtx_wide_text(text);
    return pln_stack_push(NULL, &annotation);
}

static int domain_pop(struct pln_domain *domain) {
    return pln_stack_pop(domain);
}

static int pop(void) {
    return pln_stack_pop(NULL);
}

/* ---- start and end ---- */

static uint64_t domain_start(struct pln_domain *domain, const struct nvtx_attributes *attributes) {
    if (!pln_annotation_wanted())
        return 0;
    struct pln_annotation annotation = pln_nvtx_event(domain, attributes);
    return pln_table_begin(&annotation);
}

static uint64_t start_attributes(const struct nvtx_attributes *attributes) {
    return domain_start(NULL, attributes);
}

static uint64_t start_text(const char *text) {
    if (!pln_annotation_wanted())
        return 0;
    struct pln_annotation annotation = pln_nvtx_text(text);
    return pln_table_begin(&annotation);
}

static uint64_t start_wide(const wchar_t *text) {
    if (!pln_annotation_wanted())
        return 0;
    struct pln_annotation annotation = pln_nvtx_wide_text(text);
    return pln_table_begin(&annotation);
}

static void domain_end(struct pln_domain *domain, uint64_t id) {
    (void)domain;
    pln_table_end(id);
}

/* ---- marks ---- */

static void mark(struct pln_annotation annotation) {
    pln_mark(annotation.name, annotation.args, annotation.source, annotation.value, annotation.scope);
}

static void domain_mark(struct pln_domain *domain, const struct nvtx_attributes *attributes) {
    if (pln_annotation_wanted())
        mark(pln_nvtx_event(domain, attributes));
}

static void mark_attributes(const struct nvtx_attributes *attributes) {
    domain_mark(NULL, attributes);
}

static void mark_text(const char *text) {
    if (pln_annotation_wanted())
        mark(pln_nvtx_text(text));
}

static void mark_wide(const wchar_t *text) {
    if (pln_annotation_wanted())
        mark(pln_nvtx_wide_text(text));
}

/* ---- names and handles ---- */

static void name_category(uint32_t category, const char *name) {
    pln_domain_name_category(pln_nvtx_domain(NULL), category, name);
}

static void domain_name_category(struct pln_domain *domain, uint32_t category, const char *name) {
    pln_domain_name_category(pln_nvtx_domain(domain), category, name);
}

static void domain_name_category_wide(struct pln_domain *domain, uint32_t category, const wchar_t *wide) {
    char name[PLN_NARROW_MAX];
    if (wide != NULL)
        domain_name_category(domain, category, pln_narrow(name, sizeof name, wide));
}

static void name_category_wide(uint32_t category, const wchar_t *wide) {
    domain_name_category_wide(NULL, category, wide);
}

static void name_thread_wide(uint32_t tid, const wchar_t *wide) {
    char name[PLN_NARROW_MAX];
    if (wide != NULL)
        pln_name_thread(tid, pln_narrow(name, sizeof name, wide));
}

static struct pln_domain *create_domain(const char *name) {
    return pln_domain_get(&pln_nvtx_domains, name);
}

static struct pln_domain *create_domain_wide(const wchar_t *wide) {
    char name[PLN_NARROW_MAX];
    return create_domain(wide != NULL ? pln_narrow(name, sizeof name, wide) : NULL);
}

static struct pln_text *register_string(struct pln_domain *domain, const char *text) {
    (void)domain;
    return pln_text_get(text != NULL ? text : "");
}

static struct pln_text *register_wide(struct pln_domain *domain, const wchar_t *wide) {
    char text[PLN_NARROW_MAX];
    return register_string(domain, wide != NULL ? pln_narrow(text, sizeof text, wide) : NULL);
}

/* ---- registration ---- */

/* By callback id; a null one is not collected. */
static const function core[] = {
    [1] = (function)mark_attributes,
    [2] = (function)mark_text,
    [3] = (function)mark_wide,
    [4] = (function)start_attributes,
    [5] = (function)start_text,
    [6] = (function)start_wide,
    [7] = (function)pln_table_end,
    [8] = (function)push_attributes,
    [9] = (function)push_text,
    [10] = (function)push_wide,
    [11] = (function)pop,
    [12] = (function)name_category,
    [13] = (function)name_category_wide,
    [14] = (function)pln_name_thread,
    [15] = (function)name_thread_wide,
};
static const function core2[] = {
    [1] = (function)domain_mark,
    [2] = (function)domain_start,
    [3] = (function)domain_end,
    [4] = (function)domain_push,
    [5] = (function)domain_pop,
    [8] = (function)domain_name_category,
    [9] = (function)domain_name_category_wide,
    [10] = (function)register_string,
    [11] = (function)register_wide,
    [12] = (function)create_domain,
    [13] = (function)create_domain_wide,
};

static bool install(const struct callbacks_table *callbacks, int module, const function *functions, unsigned count) {
    function **table = NULL;
    unsigned size = 0;
    if (!callbacks->get_functions(module, &table, &size) || table == NULL)
        return false;
    for (unsigned i = 0; i < count && i < size; i++)
        if (functions[i] != NULL && table[i] != NULL)
            *table[i] = functions[i];
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
