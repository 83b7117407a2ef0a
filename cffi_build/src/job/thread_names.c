/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "thread_names.h"

#include <stdlib.h>

#include "annotation.h"

/* A list that only grows: entries of threads that are gone are used again. */
struct given {
    uint32_t tid; /* 0: unused */
    struct pln_text *name;
    struct given *next;
};

static struct given *given;

static struct given *find(uint32_t tid) {
    struct given *entry = __atomic_load_n(&given, __ATOMIC_ACQUIRE); /* pairs with the release in add() */
    while (entry != NULL && __atomic_load_n(&entry->tid, __ATOMIC_ACQUIRE) != tid) /* and with that of forget */
        entry = entry->next;
    return entry;
}

static struct given *reuse(uint32_t tid) {
    for (struct given *entry = find(0); entry != NULL; entry = find(0)) {
        uint32_t unused = 0;
        if (__atomic_compare_exchange_n(&entry->tid, &unused, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return entry;
    }
    return NULL;
}

static struct given *add(uint32_t tid) {
    struct given *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    entry->tid = tid;
    entry->next = __atomic_load_n(&given, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&given, &entry->next, entry, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return entry;
}

void pln_name_thread(uint32_t tid, const char *name) {
    struct pln_text *text = name != NULL && tid != 0 ? pln_text_get(name) : NULL;
    if (text == NULL)
        return;
    struct given *entry = find(tid);
    if (entry == NULL && (entry = reuse(tid)) == NULL && (entry = add(tid)) == NULL)
        return;
    __atomic_store_n(&entry->name, text, __ATOMIC_RELEASE); /* pairs with the acquire below */
    if (pln_annotation_wanted())
        pln_record_thread(tid, pln_text_id(text));
}

const char *pln_given_thread_name(uint32_t tid) {
    struct given *entry = find(tid);
    struct pln_text *name = entry != NULL ? __atomic_load_n(&entry->name, __ATOMIC_ACQUIRE) : NULL;
    return name != NULL ? name->text : NULL;
}

void pln_forget_thread_name(uint32_t tid) {
    struct given *entry = find(tid);
    if (entry == NULL)
        return;
    __atomic_store_n(&entry->name, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->tid, 0, __ATOMIC_RELEASE); /* pairs with find(): the name is gone before */
}
