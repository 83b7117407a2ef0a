/* SPDX-License-Identifier: Apache-2.0 */
#include "itt.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 4096 /* names of events; VTune's manual speaks of a few */

enum { METADATA_U64 = 1 };

static struct pln_domain *domains;
static struct itt_counter *counters;
static struct pln_text *events[EVENTS_MAX];

/* ---- domains and strings ---- */

static void name_categories(struct pln_domain *domain) {
    static const char *const names[ITT_CATEGORIES] = {[ITT_FRAME] = "frame",
                                                      [ITT_REGION] = "region",
                                                      [ITT_EVENT] = "event",
                                                      [ITT_COUNTER] = "counter",
                                                      [ITT_METADATA] = "metadata"};
    for (uint32_t category = 0; category < ITT_CATEGORIES; category++)
        pln_domain_name_category(domain, category, names[category]);
}

struct pln_domain *pln_itt_domain_named(const char *name) {
    struct pln_domain *domain = pln_domain_get(&domains, name);
    if (domain != NULL && __atomic_load_n(&domain->labels, __ATOMIC_RELAXED)->next == NULL)
        name_categories(domain);
    return domain;
}

struct pln_domain *pln_itt_domain(const struct itt_domain *domain) {
    if (domain == NULL)
        return NULL;
    struct pln_domain *known = __atomic_load_n(&domain->domain, __ATOMIC_ACQUIRE); /* pairs with the release below */
    if (PLN_UNLIKELY(known == NULL)) {
        known = pln_itt_domain_named(domain->name);
        __atomic_store_n(&((struct itt_domain *)domain)->domain, known, __ATOMIC_RELEASE);
    }
    return known;
}

struct itt_domain *pln_itt_domain_create(const char *name) {
    struct pln_domain *domain = name != NULL ? pln_itt_domain_named(name) : NULL;
    if (domain == NULL)
        return NULL;
    void *face = __atomic_load_n(&domain->face, __ATOMIC_ACQUIRE); /* pairs with the release below */
    struct itt_domain *made = face == NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL)
        return face;
    *made = (struct itt_domain){.flags = 1, .name = domain->name, .domain = domain};
    if (__atomic_compare_exchange_n(&domain->face, &face, (void *)made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return face;
}

struct pln_text *pln_itt_string_create(const char *text) {
    return text != NULL ? pln_text_get(text) : NULL;
}

struct pln_annotation pln_itt_annotation(struct pln_domain *domain, enum pln_itt_category category, uint32_t name) {
    return (struct pln_annotation){
        .name = name,
        .args = pln_domain_args(domain, category, PLN_VALUE_PLAIN),
        .source = PLN_SOURCE_ITT,
        .scope = category,
    };
}

/* ---- counters ---- */

static struct itt_counter *find_counter(struct itt_counter *first, const char *name, const char *domain) {
    while (first != NULL && (strcmp(first->name, name) != 0 || strcmp(first->domain_name, domain) != 0))
        first = first->next;
    return first;
}

static void free_counter(struct itt_counter *counter) {
    if (counter != NULL) {
        free((char *)counter->name);
        free((char *)counter->domain_name);
    }
    free(counter);
}

static struct itt_counter *make_counter(const char *name, const char *domain, int type) {
    struct itt_counter *counter = calloc(1, sizeof *counter);
    if (counter == NULL || (counter->name = strdup(name)) == NULL || (counter->domain_name = strdup(domain)) == NULL) {
        free_counter(counter);
        return NULL;
    }
    counter->type = type;
    return counter;
}

struct itt_counter *pln_itt_counter_create_typed(const char *name, const char *domain, int type) {
    if (name == NULL)
        return NULL;
    domain = domain != NULL ? domain : "";
    struct itt_counter *first = __atomic_load_n(&counters, __ATOMIC_ACQUIRE); /* pairs with the release below */
    struct itt_counter *found = find_counter(first, name, domain);
    if (found != NULL)
        return found;
    struct itt_counter *made = make_counter(name, domain, type);
    if (made == NULL)
        return NULL;
    do { /* whoever was faster may have added this very counter */
        made->next = first;
        if (__atomic_compare_exchange_n(&counters, &first, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return made;
    } while ((found = find_counter(first, name, domain)) == NULL);
    free_counter(made);
    return found;
}

struct itt_counter *pln_itt_counter_create(const char *name, const char *domain) {
    return pln_itt_counter_create_typed(name, domain, METADATA_U64);
}

struct itt_counter *pln_itt_counter_create_in(const struct itt_domain *domain, const char *name, int type) {
    return pln_itt_counter_create_typed(name, domain != NULL ? domain->name : NULL, type);
}

/* ---- events ---- */

/* The length may leave out a part of the name, and exceeds it in some callers' code. */
int pln_itt_event_create(const char *name, int length) {
    if (name == NULL)
        return 0;
    char *copy = strndup(name, length > 0 ? (size_t)length : strlen(name));
    struct pln_text *text = copy != NULL ? pln_text_get(copy) : NULL;
    free(copy);
    for (int i = 0; text != NULL && i < EVENTS_MAX; i++) {
        struct pln_text *taken = NULL;
        if (__atomic_compare_exchange_n(&events[i], &taken, text, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE) ||
            taken == text) /* release: whoever learns the number sees the text */
            return i + 1;
    }
    return 0;
}

struct pln_text *pln_itt_event_text(int event) {
    return event > 0 && event <= EVENTS_MAX ? __atomic_load_n(&events[event - 1], __ATOMIC_ACQUIRE) : NULL;
}
