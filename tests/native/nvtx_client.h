/* As much of NVTX version 3 as a program embeds: the tables that an injected library fills, and the way to that library
 * at the first annotation. Numbers and layouts are those of NVTX's binary interface; the words are our own. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*nvtx_function)(void);

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    uint32_t padding;
    const void *message;
};

static nvtx_function nvtx_slots[6][16];
static nvtx_function *nvtx_table[6][17];

static int nvtx_get_functions(int module, nvtx_function ***table, unsigned *count) {
    if (module != 1 && module != 5)
        return 0;
    *table = nvtx_table[module];
    *count = 16;
    return 1;
}

static const void *nvtx_get_export_table(uint32_t id) {
    static const struct {
        size_t size;
        int (*get_functions)(int, nvtx_function ***, unsigned *);
    } callbacks = {sizeof callbacks, nvtx_get_functions};
    return id == 1 ? &callbacks : NULL;
}

/* Not for two threads at once: a program calls it first. */
static inline void nvtx_initialize(void) {
    for (unsigned module = 0; module < 6; module++)
        for (unsigned i = 0; i < 16; i++)
            nvtx_table[module][i] = &nvtx_slots[module][i];
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path != NULL ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialize)(const void *(*)(uint32_t)) = NULL;
    if (library != NULL)
        *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    if (initialize == NULL || !initialize(nvtx_get_export_table))
        memset(nvtx_slots, 0, sizeof nvtx_slots);
}

/* As the functions of its headers: nothing happens where no tool came. */
#define NVTX_CALL(module, id, type, otherwise, ...) \
    (nvtx_slots[module][id] != NULL ? ((type)nvtx_slots[module][id])(__VA_ARGS__) : otherwise)

static inline int nvtx_push(const char *text) {
    return NVTX_CALL(1, 9, int (*)(const char *), -2, text);
}

static inline int nvtx_pop(void) {
    return NVTX_CALL(1, 11, int (*)(void), -2);
}

static inline uint64_t nvtx_start(const char *text) {
    return NVTX_CALL(1, 5, uint64_t (*)(const char *), 0, text);
}

static inline void nvtx_end(uint64_t id) {
    NVTX_CALL(1, 7, void (*)(uint64_t), (void)0, id);
}

static inline void nvtx_mark(const char *text) {
    NVTX_CALL(1, 2, void (*)(const char *), (void)0, text);
}

static inline void *nvtx_domain(const char *name) {
    return NVTX_CALL(5, 12, void *(*)(const char *), NULL, name);
}

static inline void *nvtx_string(void *domain, const char *text) {
    return NVTX_CALL(5, 10, void *(*)(void *, const char *), NULL, domain, text);
}

static inline void nvtx_domain_push(void *domain, void *registered) {
    struct nvtx_attributes attributes = {
        .version = 3, .size = sizeof attributes, .message_type = 3, .message = registered};
    NVTX_CALL(5, 4, int (*)(void *, const struct nvtx_attributes *), -2, domain, &attributes);
}

static inline void nvtx_domain_pop(void *domain) {
    NVTX_CALL(5, 5, int (*)(void *), -2, domain);
}
