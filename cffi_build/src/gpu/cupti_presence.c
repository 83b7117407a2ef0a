/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_presence.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool is_loaded(const char *name) {
    void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

bool cupti_is_unwanted(void) {
    return secure_getenv("PILLION_NO_CUDA") != NULL;
}

bool cupti_is_injected(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    const char *file = path != NULL ? strrchr(path, '/') : NULL;
    return file != NULL && strcmp(file, "/libpillion.so") == 0;
}

bool cupti_driver_is_loaded(void) {
    return is_loaded("libcuda.so.1");
}

bool cupti_runtime_is_loaded(void) {
    return is_loaded("libcudart.so.13") || is_loaded("libcudart.so.12") || is_loaded("libcudart.so.11.0");
}
