/* SPDX-License-Identifier: Apache-2.0
 *
 * The string log of the region and the private table that finds a string in it.
 */
#include "process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct entry {
    uint32_t length;
    uint32_t hash;
    char bytes[];
};

#define ENTRY_ALIGN 8u
#define TABLE_SLOTS_MIN 4096u

static pthread_mutex_t mutex = PLN_MUTEX_INITIALIZER;

/* Open addressing, at most half full; 0 is an empty slot. mmap and not malloc: a job may record its allocator. */
static struct {
    uint32_t *ids;
    uint32_t slots;
    uint32_t used;
} table;

static struct entry *entry_at(uint32_t id) {
    return (struct entry *)(pln_process.strings + (uint64_t)id * ENTRY_ALIGN);
}

static uint32_t hash_of(const char *text, size_t size) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static uint32_t *slot_of(uint32_t hash, const char *text, size_t size) {
    for (uint32_t i = hash;; i++) {
        uint32_t *slot = &table.ids[i & (table.slots - 1)];
        if (*slot == 0)
            return slot;
        const struct entry *entry = entry_at(*slot);
        if (entry->hash == hash && entry->length == size && memcmp(entry->bytes, text, size) == 0)
            return slot;
    }
}

static bool table_resize(uint32_t slots) {
    uint32_t *ids = mmap(NULL, slots * sizeof *ids, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ids == MAP_FAILED)
        return false;
    for (uint32_t i = 0; i < table.slots; i++) {
        if (table.ids[i] == 0)
            continue;
        uint32_t at = entry_at(table.ids[i])->hash;
        while (ids[at & (slots - 1)] != 0)
            at++;
        ids[at & (slots - 1)] = table.ids[i];
    }
    if (table.ids != NULL)
        munmap(table.ids, table.slots * sizeof *ids);
    table.ids = ids;
    table.slots = slots;
    return true;
}

/* Not in the middle of a character: UTF-8 continuation bytes are 10xxxxxx. */
static size_t cut(const char *text, size_t size) {
    if (size <= PLN_NAME_MAX)
        return size;
    size = PLN_NAME_MAX;
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    return size;
}

static uint32_t append(uint32_t hash, const char *text, size_t size) {
    struct pln_region *region = pln_process.region;
    uint64_t at = region->strings_used;
    uint64_t bytes = (sizeof(struct entry) + size + ENTRY_ALIGN - 1) & ~(uint64_t)(ENTRY_ALIGN - 1);
    if (bytes > region->strings_size - at)
        return 0;
    uint32_t id = (uint32_t)(at / ENTRY_ALIGN);
    struct entry *entry = entry_at(id);
    entry->length = (uint32_t)size;
    entry->hash = hash;
    memcpy(entry->bytes, text, size); /* the padding is zero: nothing was here */
    __atomic_store_n(&region->strings_used, at + bytes, __ATOMIC_RELEASE); /* pairs with the reader's acquire */
    return id;
}

static uint32_t find_or_append(const char *text, size_t size) {
    uint32_t hash = hash_of(text, size);
    uint32_t *slot = slot_of(hash, text, size);
    if (*slot != 0)
        return *slot;
    if (table.used >= table.slots / 2) {
        if (!table_resize(table.slots * 2))
            return 0;
        slot = slot_of(hash, text, size);
    }
    *slot = append(hash, text, size);
    table.used += *slot != 0;
    return *slot;
}

uint32_t pln_intern(const char *text, size_t size) {
    if (size == 0 || pln_setup() != 0)
        return 0;
    uint32_t id = 0;
    if (pthread_mutex_lock(&mutex) == 0) { /* EDEADLK: in a signal handler that interrupted us */
        id = find_or_append(text, cut(text, size));
        pthread_mutex_unlock(&mutex);
    }
    if (id == 0)
        __atomic_fetch_add(&pln_process.region->lost_strings, 1, __ATOMIC_RELAXED);
    return id;
}

uint32_t pln_intern_site(uint64_t *site, const char *text) {
    uint64_t cached = __atomic_load_n(site, __ATOMIC_RELAXED); /* one word: id and generation fit together */
    if (PLN_LIKELY(cached >> 32 == pln_process.generation))
        return (uint32_t)cached;
    uint32_t id = pln_intern(text, strlen(text));
    if (PLN_LIKELY(id != 0)) /* a signal handler may have come at a bad moment: the next call tries again */
        __atomic_store_n(site, (uint64_t)pln_process.generation << 32 | id, __ATOMIC_RELAXED);
    return id;
}

/* Generation and id in one word by the address of a text. An address may come to hold another text, and two threads may
 * write at once: what is found counts only if the text is the same. */
#define CACHE_SLOTS 1024 /* torch's step of training has 100 to 300 names */
static uint64_t cache[CACHE_SLOTS];

/* Word by word where the text is aligned, as most are: a word that begins within the text is in the same page. */
static inline bool is_text(uint32_t id, const char *text) {
    const struct entry *entry = entry_at(id);
    uint32_t length = entry->length;
    if (PLN_UNLIKELY((uintptr_t)text % ENTRY_ALIGN != 0))
        return strncmp(text, entry->bytes, length) == 0 && text[length] == 0;
    uint64_t here, there;
    uint32_t at = 0;
    for (; at + ENTRY_ALIGN <= length; at += ENTRY_ALIGN) {
        memcpy(&here, text + at, sizeof here);
        memcpy(&there, entry->bytes + at, sizeof there);
        if (here != there)
            return false;
    }
    if (at == length)
        return text[at] == 0;
    memcpy(&here, text + at, sizeof here);
    memcpy(&there, entry->bytes + at, sizeof there); /* its padding is zero */
    return (here ^ there) << 8 * (ENTRY_ALIGN - 1 - (length - at)) == 0;
}

PLN_HOT uint32_t pln_intern_cached(const char *text) {
    uint64_t *slot = &cache[((uintptr_t)text >> 3 ^ (uintptr_t)text >> 13) % CACHE_SLOTS];
    uint64_t cached = __atomic_load_n(slot, __ATOMIC_RELAXED);
    uint64_t generation = (uint64_t)pln_process.generation << 32;
    if (PLN_LIKELY((cached & ~(uint64_t)UINT32_MAX) == generation && is_text((uint32_t)cached, text)))
        return (uint32_t)cached;
    uint32_t id = pln_intern(text, strlen(text));
    __atomic_store_n(slot, generation | id, __ATOMIC_RELAXED);
    return id;
}

const char *pln_string(uint32_t id, size_t *size) {
    const struct entry *entry = entry_at(id);
    *size = entry->length;
    return entry->bytes;
}

int pln_strings_init(void) {
    pln_process.strings = (char *)pln_process.region + pln_process.region->strings_offset;
    pln_process.region->strings_used = sizeof(struct entry); /* the empty string, id 0 */
    return table_resize(TABLE_SLOTS_MIN) ? 0 : -ENOMEM;
}

void pln_strings_prepare(void) {
    pthread_mutex_lock(&mutex);
}

void pln_strings_parent(void) {
    pthread_mutex_unlock(&mutex);
}

void pln_strings_forget(void) {
    if (table.ids != NULL)
        munmap(table.ids, table.slots * sizeof *table.ids);
    table.ids = NULL;
    table.slots = table.used = 0;
    mutex = (pthread_mutex_t)PLN_MUTEX_INITIALIZER; /* its owner was another thread id */
}
