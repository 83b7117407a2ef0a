/* SPDX-License-Identifier: Apache-2.0
 *
 * torch::profiler::impl::inputSizes() returns a vector of vectors of numbers: through a hidden first argument, each of
 * three pointers, their memory from operator new, on x86-64 and aarch64 alike.
 */
#define _GNU_SOURCE
#include "torch_shapes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "process.h"

#define TEXT_BYTES 4096 /* shapes that need more are left out */

struct sizes {
    const int64_t *begin;
    const int64_t *end;
    const int64_t *room;
};

struct inputs {
    const struct sizes *begin;
    const struct sizes *end;
    const struct sizes *room;
};

static void (*input_sizes)(struct inputs *result, const void *function, bool flatten_lists);
static void (*operator_delete)(const void *memory);

bool pln_torch_shapes_resolve(void *library) {
    void *sizes = dlsym(library, "_ZN5torch8profiler4impl10inputSizesERKN2at14RecordFunctionEb");
    void *delete = dlsym(library, "_ZdlPv"); /* of the C++ runtime that the library is linked with */
    if (sizes == NULL || delete == NULL)
        return false;
    memcpy(&input_sizes, &sizes, sizeof sizes);
    memcpy(&operator_delete, &delete, sizeof delete);
    return true;
}

struct text {
    char bytes[TEXT_BYTES];
    size_t used; /* more than there is room for: it does not fit */
};

static void add(struct text *text, const char *more) {
    size_t size = strlen(more);
    if (text->used + size <= TEXT_BYTES)
        memcpy(text->bytes + text->used, more, size);
    text->used += size;
}

static void add_sizes(struct text *text, const struct sizes *sizes) {
    add(text, "[");
    for (const int64_t *size = sizes->begin; size != sizes->end; size++) {
        char number[24];
        snprintf(number, sizeof number, size == sizes->begin ? "%lld" : ", %lld", (long long)*size);
        add(text, number);
    }
    add(text, "]");
}

uint32_t pln_torch_shapes(const void *function) {
    struct inputs inputs = {0};
    struct text text;
    text.used = 0;
    input_sizes(&inputs, function, false);
    add(&text, "[");
    for (const struct sizes *sizes = inputs.begin; sizes != inputs.end; sizes++) {
        if (sizes != inputs.begin)
            add(&text, ", ");
        add_sizes(&text, sizes);
        if (sizes->begin != NULL)
            operator_delete(sizes->begin);
    }
    add(&text, "]");
    bool any = inputs.begin != inputs.end;
    if (inputs.begin != NULL)
        operator_delete(inputs.begin);
    return any && text.used <= TEXT_BYTES ? pln_intern(text.bytes, text.used) : 0;
}
