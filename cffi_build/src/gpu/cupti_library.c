/* SPDX-License-Identifier: Apache-2.0
 *
 * Which libcupti a process wants: the one that it has loaded; else of the version of its CUDA runtime, or of its driver,
 * where the runtime lies, where pip puts it, where the loader finds it, where the toolkit is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti_api.h"
#include "cupti_notice.h"

struct release {
    int major;
    const char *cupti;   /* its soname */
    const char *runtime; /* libcudart's */
};

static const struct release releases[] = {
    {13, "libcupti.so.13", "libcudart.so.13"},
    {12, "libcupti.so.12", "libcudart.so.12"},
    {11, "libcupti.so.11.8", "libcudart.so.11.0"},
};
enum { RELEASES = sizeof releases / sizeof *releases };

static void *loaded(const char *name) {
    return dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
}

static void *load_at(const char *directory, const char *below, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s%s", directory, below, name);
    return length > 0 && (size_t)length < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *beside_runtime(const struct release *release) {
    static const char *const places[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/",
                                         "../../../extras/CUPTI/lib64/"};
    void *runtime = loaded(release->runtime), *library = NULL;
    if (runtime == NULL)
        return NULL;
    struct link_map *map = NULL;
    char directory[PATH_MAX];
    if (dlinfo(runtime, RTLD_DI_LINKMAP, &map) == 0 && strlen(map->l_name) < sizeof directory) {
        strcpy(directory, map->l_name);
        char *slash = strrchr(directory, '/');
        if (slash != NULL)
            *slash = '\0';
        for (unsigned i = 0; slash != NULL && library == NULL && i < sizeof places / sizeof *places; i++)
            library = load_at(directory, places[i], release->cupti);
    }
    dlclose(runtime);
    return library;
}

/* Directories in which pip puts packages, by the libraries that the process has from them. */
struct packages {
    char directories[4][PATH_MAX];
    unsigned count;
};

static int add_packages(struct dl_phdr_info *info, size_t size, void *data) {
    struct packages *packages = data;
    (void)size;
    const char *end = strstr(info->dlpi_name, "-packages/");
    size_t length = end != NULL ? (size_t)(end - info->dlpi_name) + strlen("-packages") : 0;
    if (length == 0 || length >= PATH_MAX)
        return 0;
    for (unsigned i = 0; i < packages->count; i++)
        if (strncmp(packages->directories[i], info->dlpi_name, length) == 0 && packages->directories[i][length] == '\0')
            return 0;
    memcpy(packages->directories[packages->count], info->dlpi_name, length);
    packages->directories[packages->count++][length] = '\0';
    return packages->count == sizeof packages->directories / sizeof *packages->directories;
}

static void *in_packages(const struct release *release) {
    char below[64];
    struct packages packages = {.count = 0};
    void *library = NULL;
    dl_iterate_phdr(add_packages, &packages);
    snprintf(below, sizeof below, "nvidia/cu%d/lib/", release->major);
    for (unsigned i = 0; library == NULL && i < packages.count; i++) {
        library = load_at(packages.directories[i], "nvidia/cuda_cupti/lib/", release->cupti);
        if (library == NULL)
            library = load_at(packages.directories[i], below, release->cupti);
    }
    return library;
}

static void *in_toolkit(const struct release *release) {
    const char *const homes[] = {secure_getenv("CUDA_HOME"), secure_getenv("CUDA_PATH"), "/usr/local/cuda"};
    void *library = NULL;
    for (unsigned i = 0; library == NULL && i < sizeof homes / sizeof *homes; i++) {
        if (homes[i] == NULL || *homes[i] == '\0')
            continue;
        library = load_at(homes[i], "extras/CUPTI/lib64/", release->cupti);
        if (library == NULL)
            library = load_at(homes[i], "lib64/", release->cupti);
    }
    return library;
}

static void *open_release(const struct release *release) {
    void *library = beside_runtime(release);
    if (library == NULL)
        library = in_packages(release);
    if (library == NULL)
        library = dlopen(release->cupti, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? library : in_toolkit(release);
}

static int driver_major(void) {
    void *driver = loaded("libcuda.so.1");
    int version = 0;
    if (driver == NULL)
        return 0;
    int (*get_version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    if (get_version == NULL || get_version(&version) != 0)
        version = 0;
    dlclose(driver);
    return version / 1000;
}

/* A runtime wants the libcupti of its own release; without one, any does that is not newer than the driver. */
void *cupti_library_open(void) {
    void *library = NULL, *runtime = NULL;
    for (unsigned i = 0; i < RELEASES; i++)
        if ((library = loaded(releases[i].cupti)) != NULL)
            return library;
    const char *wanted = "libcupti";
    for (unsigned i = 0; i < RELEASES && runtime == NULL; i++) {
        runtime = loaded(releases[i].runtime);
        if (runtime == NULL)
            continue;
        wanted = releases[i].cupti;
        library = open_release(&releases[i]);
        dlclose(runtime);
    }
    int newest = runtime == NULL ? driver_major() : 0;
    for (unsigned i = 0; i < RELEASES && library == NULL; i++)
        if (releases[i].major <= newest)
            library = open_release(&releases[i]);
    if (library == NULL)
        cupti_notice("nothing of CUDA is recorded: %s was not found; it comes with the CUDA toolkit (set CUDA_HOME), "
                     "and with pip as nvidia-cuda-cupti",
                     wanted);
    return library;
}
