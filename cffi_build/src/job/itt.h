/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's ITT, version 3: what its clients and we both see. The layouts are those of ittnotify.h and
 * ittnotify_config.h on 64-bit Linux. A client makes objects itself until it is initialised, and then leaves it to
 * the collector; ours and theirs look the same, and what is reserved in them for the collector is 0 at first.
 */
#ifndef PLN_ITT_H
#define PLN_ITT_H

#include "annotation.h"

/* What a record's scope says of an ITT event, and its args in words. */
enum pln_itt_category { ITT_TASK, ITT_FRAME, ITT_REGION, ITT_EVENT, ITT_COUNTER, ITT_METADATA, ITT_CATEGORIES };

struct itt_id {
    uint64_t d1, d2, d3;
};

struct itt_domain {
    volatile int flags; /* 0: the job does not call */
    const char *name;
    void *wide_name;
    int reserved;
    struct pln_domain *domain; /* NULL: not looked up yet */
    struct itt_domain *next;
};

struct itt_counter {
    const char *name;
    void *wide_name;
    const char *domain_name;
    void *wide_domain_name;
    int type; /* __itt_metadata_type */
    long index;
    int reserved;
    int64_t value;
    struct itt_counter *next;
};

/* itt_objects.c. Each once for each text, for as long as the process lives. */
struct itt_domain *pln_itt_domain_create(const char *name);
struct pln_text *pln_itt_string_create(const char *text);
struct itt_counter *pln_itt_counter_create(const char *name, const char *domain);
struct itt_counter *pln_itt_counter_create_typed(const char *name, const char *domain, int type);
struct itt_counter *pln_itt_counter_create_in(const struct itt_domain *domain, const char *name, int type);
int pln_itt_event_create(const char *name, int length);

/* The text of an event's number, NULL for none. */
struct pln_text *pln_itt_event_text(int event);

/* Ours of a client's domain: the same for all clients. */
struct pln_domain *pln_itt_domain(const struct itt_domain *domain);
struct pln_domain *pln_itt_domain_named(const char *name);

/* An annotation of a category; a NULL domain has no name. */
struct pln_annotation pln_itt_annotation(struct pln_domain *domain, enum pln_itt_category category, uint32_t name);

/* itt_ranges.c, itt_counters.c: functions by the name in a client's list. */
struct itt_entry {
    const char *name;
    void (*implementation)(void);
};

extern const struct itt_entry pln_itt_ranges[];
extern const struct itt_entry pln_itt_counters[];

#endif
