/* What an annotation costs through the tables that NVTX and ITT give to an injected library: ns for push and pop (or
 * start and end), dormant and recorded, less an empty loop of the same calls. Each round measures all of them, one
 * after the other; a figure is the least of the rounds. A round is shorter than a ring. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "range.h"
#include "self.h"

#define ROUNDS 41
#define CALLS 10000

/* ---- NVTX ---- */

typedef void (*function)(void);

struct attributes {
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

static function core[16], core2[16], *core_table[16], *core2_table[16];

static int get_functions(int module, function ***table, unsigned *count) {
    *table = module == 1 ? core_table : core2_table;
    *count = 16;
    return 1;
}

static const void *get_export_table(uint32_t id) {
    static const struct {
        size_t size;
        int (*get_functions)(int, function ***, unsigned *);
    } callbacks = {sizeof callbacks, get_functions};
    return id == 1 ? &callbacks : NULL;
}

/* ---- ITT ---- */

struct id {
    uint64_t d1, d2, d3;
};

struct itt_domain;

static struct {
    void (*begin)(const struct itt_domain *, struct id, struct id, void *);
    void (*end)(const struct itt_domain *);
    struct itt_domain *(*create)(const char *);
    void *(*string)(const char *);
} itt;

static struct {
    const char *name;
    void *pointer, *initial, *null;
    int group;
} itt_functions[] = {
    {"__itt_task_begin", &itt.begin, NULL, NULL, 0},
    {"__itt_task_end", &itt.end, NULL, NULL, 0},
    {"__itt_domain_create", &itt.create, NULL, NULL, 0},
    {"__itt_string_handle_create", &itt.string, NULL, NULL, 0},
    {0},
};

static struct {
    unsigned char magic[8];
    unsigned long version[3];
    long state[3];
    pthread_mutex_t mutex;
    void *library, *error_handler, *path, *functions, *next, *threads, *domains, *strings;
    int collection;
} itt_global = {.functions = itt_functions};

/* ---- what is measured ---- */

static void *nvtx_domain, *nvtx_string;
static struct itt_domain *itt_domain;
static void *itt_string;

static void push_text(void) {
    ((int (*)(const char *))core[9])("step");
    ((int (*)(void))core[11])();
}

static void push_registered(void) {
    const struct attributes attributes = {.version = 3,
                                          .size = 48,
                                          .category = 1,
                                          .payload_type = 2,
                                          .payload = 7,
                                          .message_type = 3,
                                          .message = nvtx_string};
    ((int (*)(void *, const struct attributes *))core2[4])(nvtx_domain, &attributes);
    ((int (*)(void *))core2[5])(nvtx_domain);
}

static void start_text(void) {
    uint64_t id = ((uint64_t (*)(const char *))core[5])("step");
    ((void (*)(uint64_t))core[7])(id);
}

static void task(void) {
    const struct id null = {0};
    itt.begin(itt_domain, null, null, itt_string);
    itt.end(itt_domain);
}

static void bare_range(void) {
    static uint64_t site;
    struct pln_token token = {0};
    if (pln_active())
        pln_begin(&token, pln_intern_site(&site, "bare"), 0, PLN_SOURCE_C);
    pln_end(&token);
}

static function nothing[2];

static void do_nothing(void) {}

static void two_empty_calls(void) {
    __atomic_load_n(&nothing[0], __ATOMIC_RELAXED)();
    __atomic_load_n(&nothing[1], __ATOMIC_RELAXED)();
}

static const struct {
    const char *name;
    function once;
} measured[] = {
    {"two empty calls", two_empty_calls},
    {"NVTX push and pop, a text", push_text},
    {"NVTX push and pop, domain, category, payload", push_registered},
    {"NVTX start and end, a text", start_text},
    {"ITT task", task},
    {"a range in C, for comparison", bare_range},
};
#define MEASURED (sizeof measured / sizeof *measured)

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void measure(double least[MEASURED], int rounds) {
    for (unsigned which = 0; which < MEASURED; which++)
        least[which] = 1e9;
    for (int round = 0; round < rounds; round++)
        for (unsigned which = 0; which < MEASURED; which++) {
            function once = measured[which].once;
            double start_ns = cpu_ns();
            for (int i = 0; i < CALLS; i++)
                once();
            double each_ns = (cpu_ns() - start_ns) / CALLS;
            least[which] = each_ns < least[which] ? each_ns : least[which];
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* the ring is drained */
        }
}

int main(int count, char **words) {
    int (*initialize)(const void *(*)(uint32_t)) =
        (int (*)(const void *(*)(uint32_t)))dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
    void (*itt_init)(void *, int) = (void (*)(void *, int))dlsym(RTLD_DEFAULT, "__itt_api_init");
    (void)count;
    (void)words;
    for (int i = 0; i < 16; i++) {
        core[i] = core2[i] = nothing[0] = nothing[1] = do_nothing;
        core_table[i] = &core[i];
        core2_table[i] = &core2[i];
    }
    if (!initialize(get_export_table))
        return 1;
    itt_init(&itt_global, 0);
    nvtx_domain = ((void *(*)(const char *))core2[12])("domain");
    nvtx_string = ((void *(*)(void *, const char *))core2[10])(nvtx_domain, "step");
    ((void (*)(void *, uint32_t, const char *))core2[8])(nvtx_domain, 1, "category");
    itt_domain = itt.create("domain");
    itt_string = itt.string("task");

    double dormant[MEASURED], recorded[MEASURED];
    pln_setup();
    measure(dormant, ROUNDS);
    if (pln_self_start(memfd_create("spool", 0)) != 0)
        return 1;
    measure(recorded, 2); /* pages and names are there now */
    measure(recorded, ROUNDS);
    struct pln_sink delivered;
    struct pln_loss losses[8];
    int lost = pln_self_stop(&delivered, losses, 8);
    printf("%-46s %8s %9s   ns, without the empty calls; %d kinds of loss\n", "", "dormant", "recorded", lost);
    for (unsigned which = 0; which < MEASURED; which++)
        printf("%-46s %8.1f %9.1f\n", measured[which].name, dormant[which] - (which > 0 ? dormant[0] : 0),
               recorded[which] - (which > 0 ? recorded[0] : 0));
    return 0;
}
