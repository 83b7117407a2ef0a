/* SPDX-License-Identifier: Apache-2.0
 *
 * No malloc, lock or I/O but in a thread's first call and a function's first.
 */
#define _GNU_SOURCE
#include "cupti_calls.h"

#include <stdlib.h>

#include "../clock.h"
#include "../job/process.h"
#include "cupti_api.h"
#include "cupti_detach.h"
#include "cupti_functions.h"

#define LEVELS 32 /* calls within calls: a runtime call makes driver calls, a host callback of a driver call more */

struct level {
    uint32_t domain;
    uint32_t id;
    uint32_t correlation;
    bool launches;
    struct pln_token token;
};

/* The calls that a thread is in. */
struct stack {
    struct stack *next; /* constant once it is in the list */
    bool used;          /* by a thread that lives */
    uint32_t epoch;     /* of its levels: others are void */
    uint32_t depth;     /* may exceed LEVELS: those have no level; the control thread reads it */
    uint32_t heard;     /* correlation of the first call of the epoch whose beginning was heard; 0: none yet */
    struct level levels[LEVELS];
};

static struct {
    uint32_t epoch;
    uint32_t generation; /* of the region in which it began */
    bool records;
    uint64_t begin_ns;    /* of the session; 0: it is being prepared, and callbacks come that nobody wants */
    struct stack *stacks; /* of all threads, also of those that are gone: a later one takes theirs */
} calls;

static __thread struct stack *stack_of_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t at_thread_exit;
static bool key_made; /* else stacks of threads that are gone are nobody's any more */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- stacks ---- */

static void end_from(struct stack *stack, uint32_t depth) {
    for (uint32_t at = stack->depth < LEVELS ? stack->depth : LEVELS; at > depth; at--)
        pln_end(&stack->levels[at - 1].token);
    __atomic_store_n(&stack->depth, depth, __ATOMIC_RELAXED);
}

/* A thread that was cancelled in a call ends it now. */
static void release(void *value) {
    struct stack *stack = value;
    end_from(stack, 0);
    stack_of_thread = NULL;
    __atomic_store_n(&stack->used, false, __ATOMIC_RELEASE); /* pairs with the acquire in reuse() */
}

static void make_key(void) {
    key_made = pthread_key_create(&at_thread_exit, release) == 0;
}

static struct stack *reuse(void) {
    /* Acquire, pairs with the release in make(): stacks in the list are whole. */
    for (struct stack *at = __atomic_load_n(&calls.stacks, __ATOMIC_ACQUIRE); at != NULL; at = at->next) {
        bool used = false;
        if (__atomic_compare_exchange_n(&at->used, &used, true, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return at;
    }
    return NULL;
}

static struct stack *make(void) {
    struct stack *stack = calloc(1, sizeof *stack);
    if (stack == NULL)
        return NULL;
    stack->used = true;
    stack->next = __atomic_load_n(&calls.stacks, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&calls.stacks, &stack->next, stack, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return stack;
}

static __attribute__((noinline)) struct stack *first_stack(void) {
    pthread_once(&once, make_key);
    struct stack *stack = reuse();
    if (stack == NULL)
        stack = make();
    if (stack != NULL && key_made)
        (void)pthread_setspecific(at_thread_exit, stack);
    stack_of_thread = stack;
    return stack;
}

static struct stack *get_stack(void) {
    struct stack *stack = stack_of_thread;
    if (PLN_UNLIKELY(stack == NULL) && (stack = first_stack()) == NULL)
        return NULL;
    uint32_t epoch = __atomic_load_n(&calls.epoch, __ATOMIC_RELAXED);
    if (PLN_UNLIKELY(stack->epoch != epoch)) {
        end_from(stack, 0); /* their ends were not told, CUPTI was gone by then */
        stack->heard = 0;
        __atomic_store_n(&stack->epoch, epoch, __ATOMIC_RELAXED);
    }
    return stack;
}

/* ---- calls ---- */

static bool within_launch(const struct stack *stack, uint32_t depth) {
    for (uint32_t at = depth; at > 0; at--)
        if (stack->levels[at - 1].launches)
            return true;
    return false;
}

static void begin(struct stack *stack, struct level *level, uint32_t depth, const struct cupti_call *call) {
    struct cupti_function function = cupti_function(level->domain, level->id, call->function);
    pln_begin(&level->token, function.name, 0, PLN_SOURCE_CUDA);
    level->token.range.value = (uint64_t)stack->epoch << 32 | call->correlation;
    level->token.range.scope = level->domain == CUPTI_RUNTIME ? PLN_CUDA_RUNTIME : PLN_CUDA_DRIVER;
    level->launches = function.launches && !within_launch(stack, depth);
    if (level->launches && level->token.ring != NULL)
        pln_probe_launch(level->token.range.seq, function.name);
}

static void enter(uint32_t domain, uint32_t id, const struct cupti_call *call) {
    struct stack *stack = get_stack();
    bool is_recorded = __atomic_load_n(&calls.records, __ATOMIC_RELAXED) && pln_is_active();
    if (PLN_UNLIKELY(stack == NULL)) {
        if (is_recorded)
            __atomic_fetch_add(&pln_process.region->lost_threads, 1, __ATOMIC_RELAXED);
        return;
    }
    if (PLN_UNLIKELY(stack->heard == 0))
        stack->heard = call->correlation;
    uint32_t depth = stack->depth;
    __atomic_store_n(&stack->depth, depth + 1, __ATOMIC_RELAXED);
    if (PLN_UNLIKELY(depth >= LEVELS)) {
        if (is_recorded && pln_ring != NULL)
            pln_lose(pln_ring, PLN_RANGE);
        return;
    }
    struct level *level = &stack->levels[depth];
    level->domain = domain;
    level->id = id;
    level->correlation = call->correlation;
    level->launches = false;
    level->token.ring = NULL;
    if (is_recorded)
        begin(stack, level, depth, call);
}

static struct level *find(struct stack *stack, uint32_t domain, uint32_t id, uint32_t correlation) {
    for (uint32_t at = stack->depth < LEVELS ? stack->depth : LEVELS; at > 0; at--) {
        struct level *level = &stack->levels[at - 1];
        if (level->correlation == correlation && level->id == id && level->domain == domain)
            return level;
    }
    return NULL;
}

static void end(struct stack *stack, struct level *level, const struct cupti_call *call) {
    if (PLN_UNLIKELY(call->result != NULL && *call->result != 0) && level->token.ring != NULL)
        level->token.range.args = cupti_error_id(*call->result);
    end_from(stack, (uint32_t)(level - stack->levels));
}

/* Correlations rise. A driver call has that of the runtime call which makes it. */
static bool began_before_the_session(const struct stack *stack, uint32_t domain, uint32_t correlation) {
    return stack->depth == 0 && (stack->heard == 0 || correlation < stack->heard ||
                                 (correlation == stack->heard && domain == CUPTI_RUNTIME));
}

/* Of a call that was in progress when the session began we hear only the end. What it launched may be recorded, so it is
 * as well: as long as the session has lasted. */
static void end_unheard_of(struct stack *stack, uint32_t domain, uint32_t id, const struct cupti_call *call) {
    uint64_t begin_ns = __atomic_load_n(&calls.begin_ns, __ATOMIC_RELAXED);
    enter(domain, id, call);
    struct level *level = find(stack, domain, id, call->correlation);
    if (level == NULL)
        return;
    level->token.range.start_ns = begin_ns;
    end(stack, level, call);
}

static void leave(uint32_t domain, uint32_t id, const struct cupti_call *call) {
    struct stack *stack = get_stack();
    if (stack == NULL)
        return;
    struct level *level = find(stack, domain, id, call->correlation);
    if (PLN_LIKELY(level != NULL))
        end(stack, level, call);
    else if (stack->depth > LEVELS) /* it is too deep to have a level */
        __atomic_store_n(&stack->depth, stack->depth - 1, __ATOMIC_RELAXED);
    else if (began_before_the_session(stack, domain, call->correlation))
        end_unheard_of(stack, domain, id, call);
    if (stack->depth == 0)
        cupti_detach_at_exit();
}

void cupti_calls_callback(void *user, uint32_t domain, uint32_t id, const void *data) {
    (void)user;
    if (PLN_UNLIKELY(cupti_calls_are_foreign() || data == NULL))
        return;
    if (PLN_UNLIKELY(domain == CUPTI_RESOURCE && id == CUPTI_CONTEXT_DESTROY_STARTING)) {
        (void)cupti_api.flush_all(CUPTI_FLUSH_COMPLETED); /* afterwards what it holds of the context is gone */
        return;
    }
    if (PLN_UNLIKELY(domain != CUPTI_RUNTIME && domain != CUPTI_DRIVER))
        return;
    if (PLN_UNLIKELY(__atomic_load_n(&calls.begin_ns, __ATOMIC_ACQUIRE) == 0)) /* pairs with cupti_calls_begin() */
        return;
    const struct cupti_call *call = data;
    if (call->site == CUPTI_ENTER)
        enter(domain, id, call);
    else if (call->site == CUPTI_EXIT)
        leave(domain, id, call);
}

/* ---- begin and end ---- */

void cupti_calls_prepare(void) {
    __atomic_store_n(&calls.begin_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&calls.generation, pln_process.generation, __ATOMIC_RELAXED);
}

void cupti_calls_begin(uint32_t epoch) {
    __atomic_store_n(&calls.epoch, epoch, __ATOMIC_RELAXED);
    __atomic_store_n(&calls.records, true, __ATOMIC_RELAXED);
    __atomic_store_n(&calls.begin_ns, pln_now_ns(), __ATOMIC_RELEASE); /* now the callbacks may look at the others */
}

void cupti_calls_end(void) {
    __atomic_store_n(&calls.records, false, __ATOMIC_RELAXED);
}

bool cupti_calls_are_foreign(void) {
    return __atomic_load_n(&calls.generation, __ATOMIC_RELAXED) != pln_process.generation;
}

bool cupti_calls_in_flight(void) {
    for (struct stack *at = __atomic_load_n(&calls.stacks, __ATOMIC_ACQUIRE); at != NULL; at = at->next)
        if (__atomic_load_n(&at->epoch, __ATOMIC_RELAXED) == calls.epoch &&
            __atomic_load_n(&at->depth, __ATOMIC_RELAXED) != 0)
            return true;
    return false;
}
