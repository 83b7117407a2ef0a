/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_presence.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "CUDA_INJECTION64_PATH" /* libcuda loads this library at its first call */

static bool is_ours; /* the variable */

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
    const char *path = getenv(VARIABLE);
    const char *file = path != NULL ? strrchr(path, '/') : NULL;
    return file != NULL && strcmp(file, "/libpillion.so") == 0;
}

bool cupti_inject(void) {
    const char *path = getenv(VARIABLE);
    Dl_info library;
    if ((path != NULL && *path != '\0') || dladdr((void *)cupti_inject, &library) == 0)
        return false;
    is_ours = setenv(VARIABLE, library.dli_fname, 1) == 0;
    return is_ours;
}

void cupti_inject_no_more(void) {
    if (is_ours)
        unsetenv(VARIABLE);
    is_ours = false;
}

bool cupti_driver_is_loaded(void) {
    return is_loaded("libcuda.so.1");
}

bool cupti_runtime_is_loaded(void) {
    return is_loaded("libcudart.so.13") || is_loaded("libcudart.so.12") || is_loaded("libcudart.so.11.0");
}
