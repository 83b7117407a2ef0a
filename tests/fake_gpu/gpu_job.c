/* A job that uses the GPU, and knows exactly how.
 *
 *     gpu_job [launches=N] [driver=N] [copies=N] [peers=N] [sets=N] [allocations=N] [events=N] [syncs=N] [graphs=N]
 *             [asks=N] [streams=N] [threads=N] [late] [wait]
 *
 * A victim as tests/targets/handshake.py says. Each number is of all threads together; what a thread does of each kind
 * alternates. Every third launch is of spin_for, by turns for 101 to 701 ns, the others are of scale and add. A graph has
 * five kernels. The answer:
 *
 *     {"calls": {name: count}, "kernels": {name: {"count": …, "ns": …}}, "copies": {"HtoD": {"count", "bytes", "ns"}, …},
 *      "launches": {tid: count}, "graph_launches": …}
 *
 * calls: of the runtime and, with driver=N, of the driver, from 'ready' on. launches: by thread, graphs not among them.
 * late: CUDA is first called after 'ready'; what sets it up is not counted.
 */
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "gpu_truth.h"

enum { STREAMS = 64, THREADS = 64, GRAPH_NODES = 5, BYTES = 4099 };
enum { LAUNCHES, DRIVER, COPIES, PEERS, SETS, ALLOCATIONS, EVENTS, SYNCS, GRAPHS, ASKS, WORK };

static const char *const work_names[WORK] = {"launches",    "driver", "copies", "peers",  "sets",
                                             "allocations", "events", "syncs",  "graphs", "asks"};

/* ---- the work ---- */

static uint64_t totals[WORK];
static uint64_t stream_count = 1, thread_count = 1;
static cudaStream_t streams[STREAMS];
static cudaGraphExec_t graph;
static CUfunction functions[KERNEL_COUNT];
static char *memory, *peer_memory; /* BYTES for each thread */
static bool waits, late;

static void set_up(void) {
    check("cudaSetDevice", cudaSetDevice(1));
    check("cudaMalloc", cudaMalloc((void **)&peer_memory, BYTES * thread_count));
    check("cudaSetDevice", cudaSetDevice(0));
    check("cudaMalloc", cudaMalloc((void **)&memory, BYTES * thread_count));
    for (uint64_t i = 0; i < stream_count; i++)
        check("cudaStreamCreate", cudaStreamCreate(&streams[i]));
    CUmodule module;
    check("cuModuleLoadData", cuModuleLoadData(&module, ""));
    for (int i = 0; i < KERNEL_COUNT; i++)
        check("cuModuleGetFunction", cuModuleGetFunction(&functions[i], module, kernel_names[i]));
    cudaGraph_t made;
    check("cudaGraphCreate", cudaGraphCreate(&made, 0));
    for (uint64_t i = 0; i < GRAPH_NODES; i++) {
        uint64_t duration_ns = spin_ns(i);
        void *arguments[] = {&duration_ns};
        struct cudaKernelNodeParams params = {.func = kernel_functions[K_spin_for],
                                              .gridDim = {2, 1, 1},
                                              .blockDim = {64, 1, 1},
                                              .kernelParams = arguments};
        cudaGraphNode_t node;
        check("cudaGraphAddKernelNode", cudaGraphAddKernelNode(&node, made, NULL, 0, &params));
    }
#if CUDA_MAJOR >= 12
    check("cudaGraphInstantiate", cudaGraphInstantiate(&graph, made, 0));
#else
    check("cudaGraphInstantiate", cudaGraphInstantiate(&graph, made, NULL, NULL, 0));
#endif
}

static void launch(struct truth *truth, uint64_t number, cudaStream_t stream, int through_driver) {
    int kernel = (int)(number % KERNEL_COUNT);
    uint64_t duration_ns = spin_ns(number);
    void *arguments[] = {&duration_ns};
    if (through_driver)
        CALL(truth, cuLaunchKernel, functions[kernel], 3, 2, 1, 32, 4, 2, 0, stream, arguments, NULL);
    else
        CALL(truth, cudaLaunchKernel, kernel_functions[kernel], (dim3){7, 1, 1}, (dim3){256, 1, 1}, arguments, 16,
             stream);
    count_kernel(truth, kernel, number);
    truth->launches++;
}

/* A thread's own part of memory: all its numbers leave the same remainder. */
static size_t part(uint64_t number) {
    return number % thread_count * BYTES;
}

static void copy(struct truth *truth, uint64_t number, cudaStream_t stream) {
    static char host[THREADS * BYTES]; /* nobody reads it */
    size_t bytes = 1 + number % BYTES;
    char *there = memory + part(number), *here = host + part(number);
    bool to_device = number / thread_count % 2 == 0;
    if (to_device)
        CALL(truth, cudaMemcpyAsync, there, here, bytes, cudaMemcpyHostToDevice, stream);
    else
        CALL(truth, cudaMemcpyAsync, here, there, bytes, cudaMemcpyDeviceToHost, stream);
    count_copy(truth, to_device ? HTOD : DTOH, bytes);
}

static void pass_event(struct truth *truth, cudaEvent_t event, uint64_t number) {
    CALL(truth, cudaEventRecord, event, streams[number % stream_count]);
    CALL(truth, cudaStreamWaitEvent, streams[(number + 1) % stream_count], event, 0);
    CALL(truth, cudaEventSynchronize, event);
}

static void do_one(struct truth *truth, int work, uint64_t number, cudaEvent_t event) {
    cudaStream_t stream = streams[number % stream_count];
    switch (work) {
    case LAUNCHES:
    case DRIVER:
        launch(truth, number, stream, work == DRIVER);
        break;
    case COPIES:
        copy(truth, number, stream);
        break;
    case PEERS:
        CALL(truth, cudaMemcpyPeerAsync, peer_memory + part(number), 1, memory + part(number), 0, BYTES, stream);
        count_copy(truth, PTOP, BYTES);
        break;
    case SETS:
        CALL(truth, cudaMemsetAsync, memory + part(number), 7, BYTES, stream);
        count_copy(truth, MEMSET, BYTES);
        break;
    case ALLOCATIONS: {
        void *address;
        CALL(truth, cudaMalloc, &address, 1 + number);
        CALL(truth, cudaFree, address);
        break;
    }
    case EVENTS:
        pass_event(truth, event, number);
        break;
    case SYNCS:
        CALL(truth, cudaStreamSynchronize, stream);
        break;
    case ASKS: {
        int device;
        CALL(truth, cudaGetDevice, &device);
        CALL(truth, cudaGetLastError);
        CALL(truth, cudaSetDevice, device);
        break;
    }
    case GRAPHS:
        CALL(truth, cudaGraphLaunch, graph, stream);
        for (uint64_t i = 0; i < GRAPH_NODES; i++)
            count_kernel(truth, K_spin_for, i);
        break;
    }
}

/* ---- threads, and the answer ---- */

struct worker {
    pthread_t thread;
    pid_t tid;
    uint64_t index;
    struct truth truth;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    worker->tid = gettid();
    check("cudaSetDevice", cudaSetDevice(0));
    cudaEvent_t event;
    check("cudaEventCreate", cudaEventCreate(&event));
    bool any = true;
    for (uint64_t number = worker->index; any; number += thread_count) {
        any = false;
        for (int kind = 0; kind < WORK; kind++)
            if (number < totals[kind]) {
                do_one(&worker->truth, kind, number, event);
                any = true;
            }
    }
    CALL(&worker->truth, cudaDeviceSynchronize);
    return NULL;
}

static void parse(int count, char **words) {
    for (int i = 1; i < count; i++) {
        char *equals = strchr(words[i], '=');
        uint64_t *number = NULL;
        waits |= strcmp(words[i], "wait") == 0;
        late |= strcmp(words[i], "late") == 0;
        if (equals == NULL)
            continue;
        *equals = 0;
        for (int kind = 0; kind < WORK; kind++)
            if (strcmp(words[i], work_names[kind]) == 0)
                number = &totals[kind];
        number = strcmp(words[i], "streams") == 0   ? &stream_count
                 : strcmp(words[i], "threads") == 0 ? &thread_count
                                                    : number;
        if (number == NULL) {
            fprintf(stderr, "gpu_job: what is %s?\n", words[i]);
            exit(2);
        }
        *number = strtoull(equals + 1, NULL, 10);
    }
    if (stream_count == 0 || stream_count > STREAMS || thread_count == 0 || thread_count > THREADS)
        exit(2);
}

int main(int count, char **words) {
    static struct worker workers[THREADS];
    static struct truth all;
    parse(count, words);
    if (!late)
        set_up();
    printf("ready {\"pid\": %d, \"tid\": %d}\n", getpid(), gettid());
    fflush(stdout);
    if (waits)
        getchar();
    if (late)
        set_up();
    for (uint64_t i = 0; i < thread_count; i++) {
        workers[i].index = i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (uint64_t i = 0; i < thread_count; i++) {
        pthread_join(workers[i].thread, NULL);
        const uint64_t *from = (const uint64_t *)&workers[i].truth;
        for (size_t j = 0; j < sizeof all / sizeof *from; j++)
            ((uint64_t *)&all)[j] += from[j];
    }
    print_truth(&all);
    printf("\"launches\": {");
    for (uint64_t i = 0; i < thread_count; i++)
        printf("%s\"%d\": %lu", i ? ", " : "", workers[i].tid, workers[i].truth.launches);
    printf("}}\n");
    fflush(stdout);
    while (waits && getchar() != EOF)
        ;
    return 0;
}
