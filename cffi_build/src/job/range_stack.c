/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "range_stack.h"

#include <pthread.h>
#include <stdlib.h>

#include "process.h"

#define LEVELS 256 /* nested pushes of a thread, over all domains; CPython stops at 1,000 calls, ranges nest far less */

struct level {
    const void *domain;
    struct pln_token token;
};

struct stack {
    unsigned used; /* may exceed LEVELS: those have no token, but their pops must find their place */
    struct level levels[LEVELS];
};

static __thread struct stack *stack_of_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t at_thread_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void) {
    (void)pthread_key_create(&at_thread_exit, free);
}

static struct stack *get_stack(void) {
    if (PLN_LIKELY(stack_of_thread != NULL))
        return stack_of_thread;
    pthread_once(&once, make_key);
    stack_of_thread = calloc(1, sizeof *stack_of_thread); /* a thread's first push */
    if (stack_of_thread != NULL)
        (void)pthread_setspecific(at_thread_exit, stack_of_thread);
    return stack_of_thread;
}

static int level_in_domain(const struct stack *stack, unsigned end, const void *domain) {
    int level = 0;
    for (unsigned i = 0; i < end; i++)
        level += stack->levels[i].domain == domain;
    return level;
}

int pln_stack_push(const void *domain, uint32_t name, const struct range_details *details) {
    struct stack *stack = get_stack();
    if (stack == NULL)
        return -1;
    unsigned at = stack->used++;
    if (PLN_UNLIKELY(at >= LEVELS))
        return -1;
    struct level *level = &stack->levels[at];
    level->domain = domain;
    pln_begin(&level->token, name, details->domain, details->source);
    level->token.value = details->payload;
    level->token.scope = details->category;
    return level_in_domain(stack, at, domain);
}

int pln_stack_pop(const void *domain) {
    struct stack *stack = stack_of_thread;
    if (stack == NULL || stack->used == 0)
        return -1;
    if (PLN_UNLIKELY(stack->used > LEVELS)) {
        stack->used--;
        return -1;
    }
    unsigned at = stack->used;
    while (at > 0 && stack->levels[at - 1].domain != domain)
        at--;
    if (at == 0)
        return -1;
    pln_end(&stack->levels[at - 1].token);
    for (unsigned i = at; i < stack->used; i++) /* ranges of other domains that are still open */
        stack->levels[i - 1] = stack->levels[i];
    stack->used--;
    return level_in_domain(stack, at - 1, domain);
}
