/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists only grow, by compare and exchange at their head: no lock that a fork or a signal handler could find taken.
 */
#include "annotation.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define SEPARATOR "\x1f"
#define TEXT_BUCKETS 4096u /* a job registers tens to thousands of names */

static struct pln_text *buckets[TEXT_BUCKETS];

void pln_annotation_lose(void) {
    struct pln_ring *ring = pln_ring != NULL ? pln_ring : pln_ring_claim();
    if (ring != NULL)
        pln_lose(ring, PLN_RANGE);
}

/* ---- texts ---- */

static uint32_t bucket_of(const char *text) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash % TEXT_BUCKETS;
}

static struct pln_text *find_text(struct pln_text *first, const char *text) {
    while (first != NULL && strcmp(first->text, text) != 0)
        first = first->next;
    return first;
}

struct pln_text *pln_text_get(const char *text) {
    struct pln_text **bucket = &buckets[bucket_of(text)];
    struct pln_text *first = __atomic_load_n(bucket, __ATOMIC_ACQUIRE); /* pairs with the release below */
    struct pln_text *found = find_text(first, text);
    if (found != NULL)
        return found;
    struct pln_text *made = calloc(1, sizeof *made);
    if (made == NULL || (made->text = strdup(text)) == NULL) {
        free(made);
        return NULL;
    }
    do { /* whoever was faster may have added this very text */
        made->next = first;
        if (__atomic_compare_exchange_n(bucket, &first, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return made;
    } while ((found = find_text(first, text)) == NULL);
    free((char *)made->text);
    free(made);
    return found;
}

/* ---- domains and their labels ---- */

static char *joined(const char *domain, const char *category, const char *kind) {
    size_t size = strlen(domain) + strlen(category) + strlen(kind) + 2 * strlen(SEPARATOR) + 1;
    char *text = malloc(size);
    if (text == NULL)
        return NULL;
    strcpy(text, domain);
    if (*category != '\0' || *kind != '\0')
        strcat(strcat(text, SEPARATOR), category);
    return *kind != '\0' ? strcat(strcat(text, SEPARATOR), kind) : text;
}

static void free_label(struct pln_label *label) {
    for (unsigned kind = 0; label != NULL && kind < PLN_VALUE_KINDS; kind++)
        free(label->texts[kind]);
    free(label);
}

static struct pln_label *make_label(const char *domain, uint32_t category, const char *name) {
    static const char *const kinds[PLN_VALUE_KINDS] = {"", "signed", "double"};
    struct pln_label *label = calloc(1, sizeof *label);
    if (label == NULL)
        return NULL;
    label->category = category;
    for (unsigned kind = 0; kind < PLN_VALUE_KINDS; kind++)
        if ((label->texts[kind] = joined(domain, name, kinds[kind])) == NULL) {
            free_label(label);
            return NULL;
        }
    return label;
}

static struct pln_domain *find_domain(struct pln_domain *first, const char *name) {
    while (first != NULL && strcmp(first->name, name) != 0)
        first = first->next;
    return first;
}

static void free_domain(struct pln_domain *domain) {
    if (domain != NULL) {
        free_label(domain->labels);
        free((char *)domain->name);
    }
    free(domain);
}

static struct pln_domain *make_domain(const char *name) {
    struct pln_domain *domain = calloc(1, sizeof *domain);
    if (domain == NULL || (domain->name = strdup(name)) == NULL || (domain->labels = make_label(name, 0, "")) == NULL) {
        free_domain(domain);
        return NULL;
    }
    return domain;
}

struct pln_domain *pln_domain_get(struct pln_domain **list, const char *name) {
    name = name != NULL ? name : "";
    struct pln_domain *first = __atomic_load_n(list, __ATOMIC_ACQUIRE); /* pairs with the release below */
    struct pln_domain *found = find_domain(first, name);
    if (found != NULL)
        return found;
    struct pln_domain *made = make_domain(name);
    if (made == NULL)
        return NULL;
    do { /* whoever was faster may have added this very domain */
        made->next = first;
        if (__atomic_compare_exchange_n(list, &first, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return made;
    } while ((found = find_domain(first, name)) == NULL);
    free_domain(made);
    return found;
}

static struct pln_label *find_label(struct pln_label *label, uint32_t category) {
    while (label->category != category && label->next != NULL)
        label = label->next;
    return label; /* the domain's own if the category has no name */
}

void pln_domain_name_category(struct pln_domain *domain, uint32_t category, const char *name) {
    if (domain == NULL || name == NULL)
        return;
    struct pln_label *label = make_label(domain->name, category, name);
    if (label == NULL)
        return;
    struct pln_label *first = __atomic_load_n(&domain->labels, __ATOMIC_ACQUIRE); /* pairs with the release below */
    const struct pln_label *known = find_label(first, category);
    if (strcmp(known->texts[0], label->texts[0]) == 0) {
        free_label(label);
        return;
    }
    do
        label->next = first;
    while (!__atomic_compare_exchange_n(&domain->labels, &first, label, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

uint32_t pln_domain_args(struct pln_domain *domain, uint32_t category, enum pln_value_kind kind) {
    if (domain == NULL)
        return 0;
    struct pln_label *label = __atomic_load_n(&domain->labels, __ATOMIC_ACQUIRE); /* pairs with the release above */
    label = find_label(label, category);
    return *label->texts[kind] != '\0' ? pln_intern_site(&label->sites[kind], label->texts[kind]) : 0;
}

/* ---- wide text ---- */

static unsigned encode(unsigned char *to, uint32_t character) {
    if (character < 0x80) {
        to[0] = (unsigned char)character;
        return 1;
    }
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        character = 0xfffd;
    unsigned more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3; /* bytes of six bits each */
    to[0] = (unsigned char)((0xff00 >> (more + 1)) | character >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        to[i] = (unsigned char)(0x80 | (character >> 6 * (more - i) & 0x3f));
    return more + 1;
}

char *pln_narrow(char *to, size_t size, const wchar_t *wide) {
    size_t used = 0;
    for (; *wide != L'\0'; wide++) {
        unsigned char bytes[4];
        unsigned count = encode(bytes, (uint32_t)*wide);
        if (used + count >= size)
            break;
        memcpy(to + used, bytes, count);
        used += count;
    }
    to[used] = '\0';
    return to;
}
