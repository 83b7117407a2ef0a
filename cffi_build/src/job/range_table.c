/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed table without a lock. A slot's state is a word of its generation, counted at every end, and its phase: who
 * changes it from FREE or OPEN to BUSY has the slot to himself, so a token is never read while it changes hands.
 */
#include "range_table.h"

#include <sys/mman.h>

#define SLOTS 65536u /* 7 MB of addresses; of what is open at a time a job has tens */
#define PROBES 64u   /* a key lies this near behind its hash, or nowhere */

enum phase { FREE, BUSY, OPEN, PHASES };

struct slot {
    uint64_t state; /* generation * PHASES + phase */
    struct pln_range_key key;
    struct pln_token token;
    uint32_t session;
    bool alone; /* the token says what the range is, and is not open in its thread */
};

static struct slot *table; /* mapped at the first range */
static uint32_t open_count; /* 0: an end need not look */

static const struct pln_range_key no_key; /* of what NVTX starts: the job's keys have an owner */

static struct slot *make_table(void) {
    struct slot *made =
        mmap(NULL, SLOTS * sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    struct slot *none = NULL;
    /* Release and acquire pair with each other: whoever loses sees a table of zeroes. */
    if (__atomic_compare_exchange_n(&table, &none, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return made;
    munmap(made, SLOTS * sizeof *made);
    return none;
}

static struct slot *get_table(void) {
    struct slot *mapped = __atomic_load_n(&table, __ATOMIC_ACQUIRE); /* pairs with the release above */
    return PLN_LIKELY(mapped != NULL) ? mapped : make_table();
}

static uint32_t home_of(const struct pln_range_key *key) {
    uint64_t hash = 0;
    for (unsigned i = 0; i < 4; i++)
        hash = (hash ^ key->words[i]) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (uint32_t)(hash >> 48);
}

static bool has_key(const struct slot *slot, const struct pln_range_key *key) {
    uint64_t differ = 0; /* relaxed: it counts only if the slot's state is still the same afterwards */
    for (unsigned i = 0; i < 4; i++)
        differ |= __atomic_load_n(&slot->key.words[i], __ATOMIC_RELAXED) ^ key->words[i];
    return differ == 0;
}

/* Takes a slot in a phase for the caller alone. Acquire, pairs with the release in leave_slot(): its token is whole. */
static bool take_slot(struct slot *slot, uint64_t state, enum phase phase) {
    return state % PHASES == (uint64_t)phase && __atomic_compare_exchange_n(&slot->state, &state, state - phase + BUSY,
                                                                            false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void leave_slot(struct slot *slot, uint64_t generation, enum phase phase) {
    __atomic_store_n(&slot->state, generation * PHASES + phase, __ATOMIC_RELEASE); /* pairs with take_slot() */
}

/* Overlapping ranges bury each other in their thread's stack of open ones, which shrinks from its top alone. Once it is
 * full, that is when nobody sees what is added to it, they stay out of it and become a record when they end. */
static bool stack_is_full(void) {
    return pln_ring != NULL && pln_ring->depth >= PLN_OPEN_MAX;
}

static void begin_alone(struct slot *slot, const struct pln_annotation *annotation) {
    slot->session = pln_process.region->session;
    slot->token.generation = pln_process.generation;
    slot->token.range = (struct pln_range){
        .tid = pln_ring->tid,
        .start_ns = pln_now_ns(),
        .name = annotation->name,
        .args = annotation->args,
        .source = (uint16_t)annotation->source,
        .value = annotation->value,
        .scope = annotation->scope,
    };
}

/* What a session does not see whole is counted: no reader can find it among the open ranges. */
static void end_alone(struct slot *slot) {
    if (slot->token.generation != pln_process.generation || !pln_wanted())
        return;
    if (slot->session != pln_process.region->session) {
        pln_annotation_lose();
        return;
    }
    slot->token.range.end_ns = pln_now_ns();
    pln_submit(slot->token.range);
}

static uint64_t begin_near(uint32_t home, uint32_t probes, const struct pln_range_key *key,
                           const struct pln_annotation *annotation) {
    struct slot *slots = get_table();
    for (uint32_t i = 0; slots != NULL && i < probes; i++) {
        uint32_t at = (home + i) % SLOTS;
        struct slot *slot = &slots[at];
        uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
        if (!take_slot(slot, state, FREE))
            continue;
        uint64_t generation = state / PHASES;
        for (unsigned word = 0; word < 4; word++)
            __atomic_store_n(&slot->key.words[word], key->words[word], __ATOMIC_RELAXED);
        slot->alone = stack_is_full();
        if (PLN_UNLIKELY(slot->alone))
            begin_alone(slot, annotation);
        else
            pln_annotation_begin(&slot->token, annotation);
        __atomic_fetch_add(&open_count, 1, __ATOMIC_RELAXED);
        leave_slot(slot, generation, OPEN);
        return (generation + 1) * SLOTS + at; /* never 0 */
    }
    pln_annotation_lose();
    return 0;
}

static bool end_slot(struct slot *slot, uint64_t state) {
    if (!take_slot(slot, state, OPEN))
        return false;
    if (PLN_UNLIKELY(slot->alone))
        end_alone(slot);
    else
        pln_end(&slot->token);
    leave_slot(slot, state / PHASES + 1, FREE);
    __atomic_fetch_sub(&open_count, 1, __ATOMIC_RELAXED);
    return true;
}

/* Where a thread looks first: the slot that it freed last is in its cache. It begins anywhere, so that threads do not
 * meet. */
static __thread uint32_t hint __attribute__((tls_model("initial-exec")));

uint64_t pln_table_begin(const struct pln_annotation *annotation) {
    if (PLN_UNLIKELY(hint == 0)) {
        struct pln_range_key thread = {{(uint64_t)(uintptr_t)&hint}};
        hint = home_of(&thread);
    }
    uint64_t id = begin_near(hint, SLOTS, &no_key, annotation);
    hint = (uint32_t)(id % SLOTS) + 1;
    return id;
}

void pln_table_end(uint64_t id) {
    struct slot *slots = __atomic_load_n(&table, __ATOMIC_ACQUIRE); /* pairs with the release in make_table() */
    if (id < SLOTS || slots == NULL)
        return;
    uint32_t at = (uint32_t)(id % SLOTS);
    if (end_slot(&slots[at], (id / SLOTS - 1) * PHASES + OPEN))
        hint = at;
}

/* The state of the slot that has the key open, and where it is; NULL if none has. */
static struct slot *find(const struct pln_range_key *key, uint64_t *state) {
    if (__atomic_load_n(&open_count, __ATOMIC_RELAXED) == 0)
        return NULL;
    struct slot *slots = __atomic_load_n(&table, __ATOMIC_ACQUIRE); /* pairs with the release in make_table() */
    uint32_t home = home_of(key);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct slot *slot = &slots[(home + i) % SLOTS];
        *state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE); /* pairs with leave_slot(): its key is whole */
        if (*state % PHASES == (uint64_t)OPEN && has_key(slot, key))
            return slot;
    }
    return NULL;
}

void pln_table_begin_key(const struct pln_range_key *key, const struct pln_annotation *annotation) {
    (void)begin_near(home_of(key), PROBES, key, annotation);
}

void pln_table_end_key(const struct pln_range_key *key) {
    uint64_t state;
    struct slot *slot;
    do /* again if another thread ended it first: there may be another one */
        slot = find(key, &state);
    while (slot != NULL && !end_slot(slot, state));
}

bool pln_table_has_key(const struct pln_range_key *key) {
    uint64_t state;
    return find(key, &state) != NULL;
}
