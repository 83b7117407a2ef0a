/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVTX and ITT have in common: a range or a mark with a domain, a category and a number, and the objects that a
 * job makes once and uses often. Objects live as long as the process, since a job may use a handle until its last
 * moment, and none is made twice for the same text, so that they do not grow with the calls.
 */
#ifndef PLN_ANNOTATION_H
#define PLN_ANNOTATION_H

#include "process.h"

/* How a record's 64-bit value is to be read; PLAIN: unsigned. */
enum pln_value_kind { PLN_VALUE_PLAIN, PLN_VALUE_SIGNED, PLN_VALUE_DOUBLE, PLN_VALUE_KINDS };

struct pln_annotation {
    uint32_t name; /* string ids */
    uint32_t args;
    uint32_t source;
    uint32_t scope;
    uint64_t value;
};

static inline void pln_annotation_begin(struct pln_token *token, const struct pln_annotation *annotation) {
    pln_begin(token, annotation->name, annotation->args, annotation->source);
    token->range.value = annotation->value;
    token->range.scope = annotation->scope;
}

/* Whether somebody records; makes the region at a process's first annotation. */
static inline bool pln_annotation_wanted(void) {
    return PLN_UNLIKELY(pln_is_active());
}

/* Counts a range that found no place to be kept until its end. */
void pln_annotation_lose(void);

/* Of a number of at most 64 bits, sign-extended. */
static inline enum pln_value_kind pln_value_kind(int64_t value) {
    return value < 0 ? PLN_VALUE_SIGNED : PLN_VALUE_PLAIN;
}

/* A text that comes again and again; its layout is __itt_string_handle's on 64-bit machines. */
struct pln_text {
    const char *text;
    void *wide;
    int reserved;
    uint64_t site; /* for pln_intern_site() */
    struct pln_text *next;
};

/* The one object of a text; NULL without memory. */
struct pln_text *pln_text_get(const char *text);

static inline uint32_t pln_text_id(struct pln_text *text) {
    return text != NULL && text->text != NULL ? pln_intern_site(&text->site, text->text) : 0;
}

/* A domain or one of its categories, as records name it in args: "domain", "domain US category", with " US signed" or
 * " US double" behind it where the value is no unsigned number. US is the control character U+001F. */
struct pln_label {
    uint32_t category;
    char *texts[PLN_VALUE_KINDS];
    uint64_t sites[PLN_VALUE_KINDS];
    struct pln_label *next;
};

struct pln_domain {
    const char *name;
    void *face; /* what a client sees of it, where that is not the domain itself */
    struct pln_label *labels; /* the newest first; the last one is the domain's own */
    struct pln_domain *next;
};

/* The one object of a name in a list; NULL without memory. Of a NULL name "". */
struct pln_domain *pln_domain_get(struct pln_domain **list, const char *name);

/* Records name the category like this from now on. */
void pln_domain_name_category(struct pln_domain *domain, uint32_t category, const char *name);

/* The string id for args; 0 for no domain. */
uint32_t pln_domain_args(struct pln_domain *domain, uint32_t category, enum pln_value_kind kind);

/* UTF-8 of a text in UTF-32, cut to size with its zero, not in the middle of a character. What is no character becomes
 * U+FFFD. Returns to. */
char *pln_narrow(char *to, size_t size, const wchar_t *wide);

#define PLN_NARROW_MAX 4096 /* bytes of a text in UTF-32 that is converted on the way */

#endif
