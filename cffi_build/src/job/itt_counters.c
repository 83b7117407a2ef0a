/* SPDX-License-Identifier: Apache-2.0
 *
 * ITT's markers, counters and metadata become marks. A counter's mark is named like it and has the value that it has then;
 * so has metadata that is one number, and other metadata has its text behind its name. What it belongs to is the task in
 * which it is told: ids are not kept.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "itt.h"

/* __itt_metadata_type. */
enum { U64 = 1, S64, U32, S32, U16, S16, FLOAT, DOUBLE };

static void mark(struct pln_annotation annotation) {
    pln_mark(annotation.name, annotation.args, annotation.source, annotation.value, annotation.scope);
}

static void marker(const struct itt_domain *domain, struct itt_id id, struct pln_text *name, int scope) {
    (void)id;
    (void)scope; /* of what it marks: task, process, … */
    if (pln_annotation_wanted())
        mark(pln_itt_annotation(pln_itt_domain(domain), ITT_TASK, pln_text_id(name)));
}

static void marker_ex(const struct itt_domain *domain, void *clock, uint64_t timestamp, struct itt_id id,
                      struct pln_text *name, int scope) {
    (void)clock;
    (void)timestamp;
    marker(domain, id, name, scope);
}

/* ---- counters ---- */

static void show(const struct itt_counter *counter, uint64_t value, enum pln_value_kind kind) {
    if (!pln_annotation_wanted() || counter->name == NULL)
        return;
    mark((struct pln_annotation){
        .name = pln_intern_cached(counter->name),
        .args = pln_domain_args(pln_itt_domain_named(counter->domain_name), ITT_COUNTER, kind),
        .source = PLN_SOURCE_ITT,
        .scope = ITT_COUNTER,
        .value = value,
    });
}

static bool is_unsigned(int type) {
    return type == U64 || type == U32 || type == U16;
}

/* Counts while nobody records as well: a counter is a sum over the job's life. */
static void add(struct itt_counter *counter, uint64_t delta) {
    if (counter == NULL)
        return;
    int64_t value = __atomic_add_fetch(&counter->value, (int64_t)delta, __ATOMIC_RELAXED);
    show(counter, (uint64_t)value, is_unsigned(counter->type) ? PLN_VALUE_PLAIN : pln_value_kind(value));
}

/* ---- numbers ---- */

static const unsigned sizes[] = {[U64] = 8, [S64] = 8, [U32] = 4,   [S32] = 4,
                                 [U16] = 2, [S16] = 2, [FLOAT] = 4, [DOUBLE] = 8};

static bool is_number(int type) {
    return type >= U64 && type <= DOUBLE;
}

/* An integer of the type, extended by its sign if it has one. */
static int64_t read_integer(int type, const void *value) {
    union {
        uint64_t u64;
        int64_t s64;
        uint32_t u32;
        int32_t s32;
        uint16_t u16;
        int16_t s16;
    } number = {0};
    memcpy(&number, value, sizes[type]);
    return type == S32 ? number.s32 : type == S16 ? number.s16 : number.s64;
}

static double read_real(int type, const void *value) {
    double real;
    float single;
    memcpy(type == DOUBLE ? (void *)&real : (void *)&single, value, type == DOUBLE ? sizeof real : sizeof single);
    return type == DOUBLE ? real : (double)single;
}

struct number {
    uint64_t value;
    enum pln_value_kind kind;
};

static struct number read_number(int type, const void *value) {
    struct number number = {.kind = PLN_VALUE_DOUBLE};
    if (type == FLOAT || type == DOUBLE) {
        double real = read_real(type, value);
        memcpy(&number.value, &real, sizeof real);
    } else {
        int64_t integer = read_integer(type, value);
        number.value = (uint64_t)integer;
        number.kind = is_unsigned(type) ? PLN_VALUE_PLAIN : pln_value_kind(integer);
    }
    return number;
}

static void counter_set_value(struct itt_counter *counter, const void *value) {
    if (counter == NULL || value == NULL || !is_number(counter->type))
        return;
    struct number number = read_number(counter->type, value);
    if (number.kind != PLN_VALUE_DOUBLE)
        __atomic_store_n(&counter->value, (int64_t)number.value, __ATOMIC_RELAXED);
    show(counter, number.value, number.kind);
}

static void counter_set_value_ex(struct itt_counter *counter, void *clock, uint64_t timestamp, const void *value) {
    (void)clock;
    (void)timestamp;
    counter_set_value(counter, value);
}

static void counter_inc(struct itt_counter *counter) {
    add(counter, 1);
}

static void counter_inc_delta(struct itt_counter *counter, uint64_t delta) {
    add(counter, delta);
}

static void counter_dec(struct itt_counter *counter) {
    add(counter, (uint64_t)-1);
}

static void counter_dec_delta(struct itt_counter *counter, uint64_t delta) {
    add(counter, -delta);
}

/* By domain and name alone: the first use makes the counter. */
static void add_named(const struct itt_domain *domain, const struct pln_text *name, uint64_t delta) {
    if (domain != NULL && name != NULL)
        add(pln_itt_counter_create_in(domain, name->text, S64), delta);
}

static void counter_inc_v3(const struct itt_domain *domain, const struct pln_text *name) {
    add_named(domain, name, 1);
}

static void counter_inc_delta_v3(const struct itt_domain *domain, const struct pln_text *name, uint64_t delta) {
    add_named(domain, name, delta);
}

static void counter_dec_v3(const struct itt_domain *domain, const struct pln_text *name) {
    add_named(domain, name, (uint64_t)-1);
}

static void counter_dec_delta_v3(const struct itt_domain *domain, const struct pln_text *name, uint64_t delta) {
    add_named(domain, name, -delta);
}

/* ---- metadata ---- */

#define METADATA_BYTES 1024 /* of its name and its text; cut beyond */

static void tell(const struct itt_domain *domain, uint32_t name, struct number number) {
    struct pln_annotation annotation = pln_itt_annotation(pln_itt_domain(domain), ITT_METADATA, name);
    annotation.args = pln_domain_args(pln_itt_domain(domain), ITT_METADATA, number.kind);
    annotation.value = number.value;
    mark(annotation);
}

static size_t print_number(char *to, size_t size, struct number number) {
    int length;
    if (number.kind == PLN_VALUE_DOUBLE) {
        double real;
        memcpy(&real, &number.value, sizeof real);
        length = snprintf(to, size, "%g", real);
    } else {
        bool is_signed = number.kind == PLN_VALUE_SIGNED;
        length = snprintf(to, size, is_signed ? "%ld" : "%lu", number.value);
    }
    return length < 0 ? 0 : (size_t)length;
}

static void metadata_add(const struct itt_domain *domain, struct itt_id id, struct pln_text *key, int type,
                         size_t count, const void *data) {
    (void)id;
    if (!pln_annotation_wanted() || key == NULL || data == NULL || count == 0 || !is_number(type))
        return;
    if (count == 1) {
        tell(domain, pln_text_id(key), read_number(type, data));
        return;
    }
    char text[METADATA_BYTES];
    size_t length = (size_t)snprintf(text, sizeof text, "%s:", key->text);
    for (size_t i = 0; i < count && length + 1 < sizeof text; i++) {
        text[length++] = ' ';
        length +=
            print_number(text + length, sizeof text - length, read_number(type, (const char *)data + i * sizes[type]));
    }
    tell(domain, pln_intern_cached(text), (struct number){0});
}

static void metadata_str_add(const struct itt_domain *domain, struct itt_id id, struct pln_text *key, const char *data,
                             size_t length) {
    (void)id;
    if (!pln_annotation_wanted() || key == NULL || data == NULL)
        return;
    char text[METADATA_BYTES];
    int shown = length > 0 && length < sizeof text ? (int)length : (int)sizeof text;
    snprintf(text, sizeof text, "%s: %.*s", key->text, shown, data);
    tell(domain, pln_intern_cached(text), (struct number){0});
}

static void metadata_add_with_scope(const struct itt_domain *domain, int scope, struct pln_text *key, int type,
                                    size_t count, const void *data) {
    (void)scope;
    metadata_add(domain, (struct itt_id){0}, key, type, count, data);
}

static void metadata_str_add_with_scope(const struct itt_domain *domain, int scope, struct pln_text *key,
                                        const char *data, size_t length) {
    (void)scope;
    metadata_str_add(domain, (struct itt_id){0}, key, data, length);
}

#define ENTRY(name) {"__itt_" #name, (void (*)(void))name}
#define ENTRY_AS(text, function) {"__itt_" text, (void (*)(void))function}

const struct itt_entry pln_itt_counters[] = {
    ENTRY(marker),
    ENTRY(marker_ex),
    ENTRY_AS("counter_create", pln_itt_counter_create),
    ENTRY_AS("counter_create_typed", pln_itt_counter_create_typed),
    ENTRY_AS("counter_create_v3", pln_itt_counter_create_in),
    ENTRY(counter_set_value),
    ENTRY_AS("counter_set_value_v3", counter_set_value),
    ENTRY(counter_set_value_ex),
    ENTRY(counter_inc),
    ENTRY(counter_inc_delta),
    ENTRY(counter_dec),
    ENTRY(counter_dec_delta),
    ENTRY(counter_inc_v3),
    ENTRY(counter_inc_delta_v3),
    ENTRY(counter_dec_v3),
    ENTRY(counter_dec_delta_v3),
    ENTRY(metadata_add),
    ENTRY(metadata_str_add),
    ENTRY(metadata_add_with_scope),
    ENTRY(metadata_str_add_with_scope),
    {0},
};
