/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel's ITT: a job that finds this library in INTEL_LIBITTNOTIFY64 calls __itt_api_init once for each client it has
 * linked (torch, ittapi, oneDNN). The layouts are those of ittnotify_config.h on 64-bit Linux. An interface that is not
 * collected keeps its null function.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "range_stack.h"

struct itt_id {
    uint64_t d1, d2, d3;
};

struct itt_domain {
    volatile int flags; /* 0: the job does not call */
    const char *name;
    void *wide_name;
    int extra1;
    void *extra2;
    struct itt_domain *next;
};

struct itt_string {
    const char *text;
    void *wide_text;
    int site_low; /* extra1 and extra2 are the collector's to use */
    void *site;
    struct itt_string *next;
};

struct itt_function {
    const char *name;
    void **pointer;
    void *initial;
    void *null;
    int group;
};

struct itt_global {
    unsigned char magic[8];
    unsigned long version[3];
    volatile long api_initialized;
    volatile long mutex_initialized;
    volatile long atomic_counter;
    pthread_mutex_t mutex;
    void *library;
    void *error_handler;
    const char **library_path;
    struct itt_function *functions;
    struct itt_global *next;
    void *threads;
    struct itt_domain *domains;
    struct itt_string *strings;
    int state;
};

static uint32_t id_of(const char *text) {
    return text != NULL ? pln_intern_cached(text) : 0;
}

static void task_begin(const struct itt_domain *domain, struct itt_id task, struct itt_id parent,
                       const struct itt_string *name) {
    (void)task;
    (void)parent;
    bool active = pln_active();
    const struct range_details details = {
        .source = PLN_SOURCE_ITT,
        .domain = active && domain != NULL ? id_of(domain->name) : 0,
    };
    pln_stack_push(domain, active && name != NULL ? id_of(name->text) : 0, &details);
}

static void task_end(const struct itt_domain *domain) {
    pln_stack_pop(domain);
}

static void marker(const struct itt_domain *domain, struct itt_id id, const struct itt_string *name, int scope) {
    (void)domain;
    (void)id;
    (void)scope;
    if (pln_active() && name != NULL)
        pln_mark(id_of(name->text), 0, PLN_SOURCE_ITT);
}

/* A client makes its objects itself until it is initialised, and then leaves it to the collector. One for each text, for
 * as long as the process lives. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct itt_domain *domains;
static struct itt_string *strings;

static struct itt_domain *create_domain(const char *name) {
    if (name == NULL)
        return NULL;
    pthread_mutex_lock(&mutex);
    struct itt_domain *domain = domains;
    while (domain != NULL && strcmp(domain->name, name) != 0)
        domain = domain->next;
    if (domain == NULL && (domain = calloc(1, sizeof *domain)) != NULL) {
        *domain = (struct itt_domain){.flags = 1, .name = strdup(name), .next = domains};
        domains = domain->name != NULL ? domain : domains;
    }
    pthread_mutex_unlock(&mutex);
    return domain;
}

static struct itt_string *create_string(const char *text) {
    if (text == NULL)
        return NULL;
    pthread_mutex_lock(&mutex);
    struct itt_string *string = strings;
    while (string != NULL && strcmp(string->text, text) != 0)
        string = string->next;
    if (string == NULL && (string = calloc(1, sizeof *string)) != NULL) {
        *string = (struct itt_string){.text = strdup(text), .next = strings};
        strings = string->text != NULL ? string : strings;
    }
    pthread_mutex_unlock(&mutex);
    return string;
}

static const struct {
    const char *name;
    void *implementation;
} collected[] = {
    {"__itt_task_begin", (void *)task_begin},
    {"__itt_task_end", (void *)task_end},
    {"__itt_marker", (void *)marker},
    {"__itt_domain_create", (void *)create_domain},
    {"__itt_string_handle_create", (void *)create_string},
};

static void *implementation_of(const struct itt_function *function) {
    for (unsigned i = 0; i < sizeof collected / sizeof *collected; i++)
        if (strcmp(function->name, collected[i].name) == 0)
            return collected[i].implementation;
    return function->null;
}

__attribute__((visibility("default"))) void __itt_api_init(struct itt_global *global, int groups) {
    (void)groups;
    if (global == NULL || global->functions == NULL)
        return;
    for (struct itt_function *function = global->functions; function->name != NULL; function++)
        *function->pointer = implementation_of(function);
}
