/* SPDX-License-Identifier: Apache-2.0
 *
 * at::RecordFunction from C. The facts are those of torch 2.0 to 2.13: callbacks are registered as a 40-byte struct by
 * value; a start callback returns a unique_ptr, which the x86-64 and aarch64 ABIs turn into a hidden first argument;
 * what it holds is deleted through its virtual destructor. Symbols are looked up by name, layouts are checked on a live
 * object, and whatever does not fit is left out, never guessed.
 */
#define _GNU_SOURCE
#include "torch_ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "process.h"
#include "torch_shapes.h"

enum scope { FUNCTION = 0, BACKWARD_FUNCTION = 1, USER_SCOPE = 7, SCOPES = 10 };

typedef void record_function; /* at::RecordFunction, opaque */

/* at::RecordFunctionCallback. */
struct callback {
    void *start;
    void *end;
    double sampling_probability;
    bool scopes[SCOPES];
    bool needs_inputs;
    bool needs_outputs;
    bool needs_ids;
};
_Static_assert(sizeof(struct callback) == 40, "passed by value: its size is the ABI");

/* Stands for an at::ObserverContext: torch sees the vtable pointer alone. */
struct context {
    const void *const *vtable;
    union {
        struct context *next; /* while torch does not have it */
        struct pln_token token;
    };
} __attribute__((aligned(64)));

#define CONTEXTS_AT_ONCE 32

static struct {
    const char *(*name)(const record_function *);
    uint64_t (*add)(struct callback);
    void (*remove)(uint64_t);
    size_t sequence_offset; /* of sequence_nr_, 0: not known */
    bool shapes;
} torch;

static uint64_t handles[3];
static unsigned handle_count;

static __thread struct context *unused __attribute__((tls_model("initial-exec")));

/* ---- contexts: a thread keeps the ones that torch has deleted ---- */

PLN_HOT static void keep_context(struct context *context) {
    context->next = unused;
    unused = context;
}

static void destroy_nothing(struct context *context) {
    (void)context;
}

/* Complete and deleting destructor, in the order of the Itanium C++ ABI. */
static const void *const context_vtable[] = {(const void *)destroy_nothing, (const void *)keep_context};

static struct context *take_context(void) {
    if (PLN_UNLIKELY(unused == NULL)) {
        struct context *fresh =
            aligned_alloc(sizeof *fresh, CONTEXTS_AT_ONCE * sizeof *fresh); /* a thread's first operators */
        for (unsigned i = 0; fresh != NULL && i < CONTEXTS_AT_ONCE; i++) {
            fresh[i].vtable = context_vtable;
            keep_context(&fresh[i]);
        }
        if (fresh == NULL)
            return NULL;
    }
    struct context *context = unused;
    unused = context->next;
    return context;
}

/* ---- callbacks ---- */

PLN_HOT static void begin(struct context **slot, const record_function *function, enum scope scope) {
    *slot = NULL;
    if (PLN_UNLIKELY(!pln_is_active()))
        return;
    struct context *context = take_context();
    if (context == NULL)
        return;
    context->token.ring = NULL;
    const char *name = torch.name(function);
    pln_begin_wanted(&context->token, pln_intern_cached(name), 0, PLN_SOURCE_TORCH);
    context->token.range.scope = scope;
    if (torch.sequence_offset != 0)
        memcpy(&context->token.range.value, (const char *)function + torch.sequence_offset,
               sizeof context->token.range.value);
    if (PLN_UNLIKELY(torch.shapes && scope != USER_SCOPE))
        context->token.range.args = pln_torch_shapes(function);
    *slot = context;
}

/* One for each scope: which one is called says what a public accessor of torch does not export. */
PLN_HOT static void *begin_function(struct context **slot, const record_function *function) {
    begin(slot, function, FUNCTION);
    return slot;
}

static void *begin_backward(struct context **slot, const record_function *function) {
    begin(slot, function, BACKWARD_FUNCTION);
    return slot;
}

static void *begin_user(struct context **slot, const record_function *function) {
    begin(slot, function, USER_SCOPE);
    return slot;
}

PLN_HOT static void end(const record_function *function, struct context *context) {
    (void)function;
    if (context != NULL && context->token.ring != NULL)
        pln_end_begun(&context->token);
}

/* ---- registration ---- */

/* Where sequence_nr_ is, found in an object as torch constructs it: of its members sequence_nr_ and debug_handle_ alone
 * begin as −1, 128 bytes apart. */
static size_t find_sequence_offset(void *library) {
    void (*construct)(void *, uint8_t) =
        (void (*)(void *, uint8_t))dlsym(library, "_ZN2at14RecordFunctionC1ENS_11RecordScopeE");
    void (*destroy)(void *) = (void (*)(void *))dlsym(library, "_ZN2at14RecordFunctionD1Ev");
    enum { ROOM = 8192, APART = 128 };
    int64_t *object = aligned_alloc(64, ROOM);
    if (construct == NULL || destroy == NULL || object == NULL) {
        free(object);
        return 0;
    }
    memset(object, 0x5a, ROOM);
    construct(object, FUNCTION);
    size_t found[2] = {0}, count = 0;
    for (size_t i = 0; i < ROOM / sizeof *object; i++)
        if (object[i] == -1 && count++ < 2)
            found[count - 1] = i * sizeof *object;
    destroy(object);
    free(object);
    return count == 2 && found[1] - found[0] == APART ? found[0] : 0;
}

static int resolve(void *library, const char **missing) {
    const struct {
        const char *symbol;
        void *place;
    } wanted[] = {
        {"_ZNK2at14RecordFunction4nameEv", &torch.name},
        {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &torch.add},
        {"_ZN2at14removeCallbackEm", &torch.remove},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = dlsym(library, wanted[i].symbol);
        if (address == NULL) {
            *missing = wanted[i].symbol;
            return -ENOSYS;
        }
        memcpy(wanted[i].place, &address, sizeof address);
    }
    torch.sequence_offset = find_sequence_offset(library);
    const char *shapes = secure_getenv("PILLION_TORCH_SHAPES");
    torch.shapes = shapes != NULL && strcmp(shapes, "1") == 0 && pln_torch_shapes_resolve(library);
    return 0;
}

static void add(void *start, enum scope first, enum scope last) {
    struct callback callback = {
        .start = start, .end = (void *)end, .sampling_probability = 1.0, .needs_inputs = torch.shapes};
    for (int scope = first; scope <= (int)last; scope++)
        callback.scopes[scope] = true;
    handles[handle_count++] = torch.add(callback);
}

static void start(void) {
    if (handle_count > 0)
        return; /* they came along into a fork child */
    add((void *)begin_function, FUNCTION, FUNCTION);
    add((void *)begin_backward, BACKWARD_FUNCTION, BACKWARD_FUNCTION);
    add((void *)begin_user, USER_SCOPE, USER_SCOPE);
}

static void stop(void) {
    while (handle_count > 0)
        torch.remove(handles[--handle_count]);
}

int pln_torch_start(const char *path, const char **missing) {
    static struct pln_control control = {.start = start, .stop = stop};
    *missing = NULL;
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return -ENOENT;
    int error = resolve(library, missing);
    dlclose(library); /* torch itself keeps it */
    if (error == 0)
        pln_control_add(&control);
    return error;
}
