/* What recording a launch costs, in CPU time of all threads; see cuda_launch.py. Rounds take turns: nobody records, a
 * client of CUPTI that looks at nothing, Pillion. Minima of the rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "self.h"

enum { LAUNCHES = 200000, ROUNDS = 9, BUFFER_BYTES = 1 << 20, BUFFERS = 64 };
enum { KINDS = 13, RUNTIME = 2, DRIVER = 1, FORCED = 1 };

int cuptiSubscribe(void **subscriber, void (*callback)(void *, int, uint32_t, const void *), void *user);
int cuptiUnsubscribe(void *subscriber);
int cuptiFinalize(void);
int cuptiEnableDomain(uint32_t enable, void *subscriber, int domain);
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
                                   void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flag);

static void kernel(void) {}

static void launch_all(void) {
    uint64_t duration_ns = 101;
    void *arguments[] = {&duration_ns};
    for (int i = 0; i < LAUNCHES; i++)
        cudaLaunchKernel((const void *)kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL);
}

static double cpu_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct cost {
    double all_ns, thread_ns; /* of all threads, of the one that launches */
};

static struct cost measure(void (*begin)(void), void (*end)(void)) {
    begin();
    double all_ns = cpu_ns(CLOCK_PROCESS_CPUTIME_ID), thread_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    launch_all();
    thread_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - thread_ns;
    end();
    return (struct cost){(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - all_ns) / LAUNCHES, thread_ns / LAUNCHES};
}

static void nothing(void) {}

/* ---- a client that looks at nothing: CUPTI's own part, here the stand-in's ---- */

static uint8_t buffers[BUFFERS][BUFFER_BYTES] __attribute__((aligned(8)));
static _Atomic unsigned next_buffer;
static void *subscriber;

static void callback(void *user, int domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

static void request(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = buffers[next_buffer++ % BUFFERS];
    *size = BUFFER_BYTES;
    *max_records = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)buffer, (void)size, (void)valid;
}

static void client_begin(void) {
    static const uint8_t kinds[KINDS] = {8, 9, 11, 10, 1, 22, 2, 38, 17, 39, 49, 36, 25};
    cuptiSubscribe(&subscriber, callback, NULL);
    cuptiActivityRegisterCallbacks(request, complete);
    for (int i = 0; i < KINDS; i++)
        cuptiActivityEnable(kinds[i]);
    cuptiEnableDomain(1, subscriber, RUNTIME);
    cuptiEnableDomain(1, subscriber, DRIVER);
}

static void client_end(void) {
    cuptiActivityFlushAll(FORCED);
    cuptiUnsubscribe(subscriber);
    cuptiFinalize();
}

/* ---- Pillion ---- */

static int spool;
static uint64_t calls_lost, others_lost, records;

static void pillion_begin(void) {
    spool = memfd_create("spool", 0);
    if (pln_self_start(spool) != 0)
        exit(1);
}

static void pillion_end(void) {
    struct pln_sink sink;
    struct pln_loss losses[64];
    int count = pln_self_stop(&sink, losses, 64);
    for (int i = 0; i < count; i++)
        *(losses[i].kind == PLN_RANGE ? &calls_lost : &others_lost) += losses[i].count;
    records += sink.records;
    close(spool);
}

static void keep_least(struct cost *least, struct cost cost) {
    if (least->all_ns == 0 || cost.all_ns < least->all_ns)
        least->all_ns = cost.all_ns;
    if (least->thread_ns == 0 || cost.thread_ns < least->thread_ns)
        least->thread_ns = cost.thread_ns;
}

int main(void) {
    static int binary;
    void **handle = __cudaRegisterFatBinary(&binary);
    __cudaRegisterFunction(handle, (const char *)kernel, "_Z8spin_form", "_Z8spin_form", -1, NULL, NULL, NULL, NULL,
                           NULL);
    __cudaRegisterFatBinaryEnd(handle);
    cudaSetDevice(0);
    struct cost before = {0}, off = {0}, client = {0}, pillion = {0};
    for (int i = 0; i < ROUNDS; i++)
        keep_least(&before, measure(nothing, nothing));
    for (int i = 0; i < ROUNDS; i++) {
        keep_least(&client, measure(client_begin, client_end));
        keep_least(&pillion, measure(pillion_begin, pillion_end));
        keep_least(&off, measure(nothing, nothing));
    }
    printf("%-44s %8s %8s\n", "ns of CPU per launch", "all", "thread");
    printf("%-44s %8.0f %8.0f\n", "not recording, before the first session", before.all_ns, before.thread_ns);
    printf("%-44s %8.0f %8.0f\n", "not recording, between sessions", off.all_ns, off.thread_ns);
    printf("%-44s %8.0f %8.0f\n", "a client of CUPTI that looks at nothing", client.all_ns, client.thread_ns);
    printf("%-44s %8.0f %8.0f\n", "recording", pillion.all_ns, pillion.thread_ns);
    printf("a recorded launch: %.0f ns, of which the stand-in for CUPTI takes %.0f\n", pillion.all_ns - off.all_ns,
           client.all_ns - off.all_ns);
    printf("%.1f records per launch; lost in all rounds: %lu calls, %lu others\n", (double)records / ROUNDS / LAUNCHES,
           calls_lost, others_lost);
    return 0;
}
