/* SPDX-License-Identifier: Apache-2.0 */
#include "range_stack.h"

#include <sys/mman.h>

#include "process.h"

#define LEVELS \
    (PLN_DEPTH_MAX + 1u) /* as deep as a record can say; 5 MB of addresses, of which a level takes 80 bytes */

struct level {
    const void *domain;
    int place; /* in its domain, from 0 */
    struct pln_token token;
};

struct stack {
    unsigned used; /* may exceed LEVELS: those have no token, but their pops must find their place */
    struct level levels[LEVELS];
};

static __thread struct stack *stack_of_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t at_thread_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Destructors that run later may annotate as well: they get a new stack, and this runs again. */
static void discard(void *stack) {
    stack_of_thread = NULL;
    munmap(stack, sizeof(struct stack));
}

static void make_key(void) {
    (void)pthread_key_create(&at_thread_exit, discard);
}

/* A thread's first push. mmap and not malloc: a signal handler may have interrupted malloc. */
static __attribute__((noinline)) struct stack *make_stack(void) {
    struct stack *stack =
        mmap(NULL, sizeof *stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return NULL;
    pthread_once(&once, make_key);
    struct stack *none = NULL;
    /* Relaxed: only a signal handler of this thread can have been faster. */
    if (!__atomic_compare_exchange_n(&stack_of_thread, &none, stack, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        munmap(stack, sizeof *stack);
        return none;
    }
    (void)pthread_setspecific(at_thread_exit, stack);
    return stack;
}

/* Of a range of the domain that is pushed at level `at`. */
static int place_in_domain(const struct stack *stack, unsigned at, const void *domain) {
    while (at > 0 && stack->levels[at - 1].domain != domain)
        at--;
    return at > 0 ? stack->levels[at - 1].place + 1 : 0;
}

/* The place is taken before it is filled: a signal handler in between pushes above it. */
static struct level *take_level(struct stack *stack, const void *domain) {
    unsigned at = stack->used;
    __atomic_store_n(&stack->used, at + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PLN_UNLIKELY(at >= LEVELS))
        return NULL;
    struct level *level = &stack->levels[at];
    level->place = place_in_domain(stack, at, domain);
    level->domain = domain;
    return level;
}

int pln_stack_push(const void *domain, const struct pln_annotation *annotation) {
    struct stack *stack = PLN_LIKELY(stack_of_thread != NULL) ? stack_of_thread : make_stack();
    struct level *level = stack != NULL ? take_level(stack, domain) : NULL;
    if (PLN_UNLIKELY(level == NULL)) {
        pln_annotation_lose();
        return -1;
    }
    int place = level->place;
    pln_annotation_begin(&level->token, annotation);
    return place;
}

int pln_stack_skip(const void *domain) {
    struct stack *stack = stack_of_thread;
    if (PLN_LIKELY(stack == NULL || stack->used == 0))
        return PLN_STACK_NOT_TRACKED;
    struct level *level = take_level(stack, domain);
    if (level == NULL)
        return -1;
    level->token.ring = NULL;
    return level->place;
}

static void drop_level(struct stack *stack) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a signal handler pushes above all that is still in use */
    __atomic_store_n(&stack->used, stack->used - 1, __ATOMIC_RELAXED);
}

int pln_stack_pop(const void *domain) {
    struct stack *stack = stack_of_thread;
    if (PLN_LIKELY(stack == NULL || stack->used == 0))
        return -1;
    if (PLN_UNLIKELY(stack->used > LEVELS)) {
        drop_level(stack);
        return -1;
    }
    unsigned at = stack->used;
    while (at > 0 && stack->levels[at - 1].domain != domain)
        at--;
    if (at == 0)
        return -1;
    int place = stack->levels[at - 1].place;
    pln_end(&stack->levels[at - 1].token);
    for (unsigned i = at; i < stack->used; i++) /* ranges of other domains that are still open */
        stack->levels[i - 1] = stack->levels[i];
    drop_level(stack);
    return place;
}
