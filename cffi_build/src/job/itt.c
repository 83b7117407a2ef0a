/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that finds this library in INTEL_LIBITTNOTIFY64 calls __itt_api_init once for each client it has linked (torch,
 * ittapi, oneDNN). Functions are matched by name, since each client's list is as long as its version of ITT. What is
 * not collected (relations, synchronization, pausing, tracks, histograms) keeps its null function.
 */
#define _GNU_SOURCE
#include <string.h>

#include "itt.h"

struct itt_function {
    const char *name;
    void (**pointer)(void);
    void (*initial)(void);
    void (*null)(void);
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
};

static void (*find(const struct itt_entry *entries, const char *name))(void) {
    while (entries->name != NULL && strcmp(entries->name, name) != 0)
        entries++;
    return entries->implementation; /* NULL behind the last one */
}

__attribute__((visibility("default"))) void __itt_api_init(struct itt_global *global, int groups) {
    (void)groups;
    if (global == NULL || global->functions == NULL)
        return;
    for (struct itt_function *function = global->functions; function->name != NULL; function++) {
        void (*range)(void) = find(pln_itt_ranges, function->name);
        void (*implementation)(void) = range != NULL ? range : find(pln_itt_counters, function->name);
        *function->pointer = implementation != NULL ? implementation : function->null;
    }
}
