/* libcuda: modules, launches and graphs that are built node by node.
 *
 * A kernel whose name has "spin_for" in it lasts as many ns as its first argument says (u64); any other 1,009 ns and
 * 31 ns for every byte of its name. A graph's kernels run one after the other on the stream that it is launched on.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

struct gpu_node {
    struct gpu_work work;
    uint64_t duration_ns;
    struct gpu_node *next;
};

struct gpu_graph { /* a graph, and what is instantiated from it */
    uint32_t id;
    uint64_t duration_ns;
    struct gpu_node *nodes, *last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_function *functions;
static _Atomic uint32_t graph_count;
static _Atomic uint64_t node_count;

/* Functions live for ever: records point to their names. */
static struct gpu_function *function_named(const char *name) {
    pthread_mutex_lock(&lock);
    struct gpu_function *function = functions;
    while (function != NULL && strcmp(function->name, name) != 0)
        function = function->next;
    if (function == NULL) {
        function = calloc(1, sizeof *function);
        function->name = strdup(name);
        function->spins = strstr(name, "spin_for") != NULL;
        function->next = functions;
        functions = function;
    }
    pthread_mutex_unlock(&lock);
    return function;
}

EXPORT int cuModuleLoadData(void **module, const void *image) {
    DRIVER_ENTER(cuModuleLoadData, module, image);
    if (fake_gpu_current() == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    *module = malloc(1);
    GPU_TELL(resource, GPU_MODULE_LOADED, fake_gpu_current(), *module);
    DRIVER_LEAVE(SUCCESS);
}

EXPORT int cuModuleUnload(void *module) {
    DRIVER_ENTER(cuModuleUnload, module);
    GPU_TELL(resource, GPU_MODULE_UNLOADED, fake_gpu_current(), module);
    free(module);
    DRIVER_LEAVE(SUCCESS);
}

/* A module has every function that is asked for. */
EXPORT int cuModuleGetFunction(struct gpu_function **function, void *module, const char *name) {
    DRIVER_ENTER(cuModuleGetFunction, function, module, name);
    *function = function_named(name);
    DRIVER_LEAVE(SUCCESS);
}

static const char *name_of(const struct gpu_function *function) {
    return function == NULL ? NULL : function->name;
}

static uint64_t kernel_duration_ns(const struct gpu_function *function, void **arguments) {
    if (!function->spins)
        return 1009 + 31 * strlen(function->name);
    uint64_t duration_ns;
    memcpy(&duration_ns, arguments[0], sizeof duration_ns);
    return duration_ns;
}

static int launch(const struct gpu_function *function, struct gpu_dim grid, struct gpu_dim block, uint32_t shared_bytes,
                  struct gpu_stream *handle, void **arguments) {
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        return NO_CONTEXT;
    if (function == NULL || (function->spins && arguments == NULL))
        return INVALID_VALUE;
    struct gpu_work work = {
        .kind = GPU_KERNEL,
        .stream = stream,
        .function = function,
        .grid = grid,
        .block = block,
        .shared_bytes = shared_bytes,
    };
    gpu_stream_queue(&work, kernel_duration_ns(function, arguments));
    GPU_TELL(work, &work);
    return SUCCESS;
}

EXPORT int cuLaunchKernel(struct gpu_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                          struct gpu_stream *stream, void **arguments, void **extra) {
    LAUNCH_ENTER(cuLaunchKernel, name_of(function), function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                 shared_bytes, stream, arguments, extra);
    struct gpu_dim grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    DRIVER_LEAVE(launch(function, grid, block, shared_bytes, stream, arguments));
}

EXPORT int cuLaunchKernelEx(const struct gpu_launch_config *config, struct gpu_function *function, void **arguments,
                            void **extra) {
    LAUNCH_ENTER(cuLaunchKernelEx, name_of(function), config, function, arguments, extra);
    DRIVER_LEAVE(launch(function, config->grid, config->block, config->shared_bytes, config->stream, arguments));
}

/* ---- graphs ---- */

EXPORT int cuGraphCreate(struct gpu_graph **graph, unsigned flags) {
    DRIVER_ENTER(cuGraphCreate, graph, flags);
    *graph = calloc(1, sizeof **graph);
    (*graph)->id = ++graph_count;
    DRIVER_LEAVE(SUCCESS);
}

static struct gpu_node *append(struct gpu_graph *graph, const struct gpu_node *like) {
    struct gpu_node *node = malloc(sizeof *node);
    *node = *like;
    node->next = NULL;
    node->work.node_id = ++node_count;
    node->work.graph_id = graph->id;
    if (graph->last == NULL)
        graph->nodes = node;
    else
        graph->last->next = node;
    graph->last = node;
    graph->duration_ns += node->duration_ns;
    return node;
}

/* As in CUDA the arguments are copied now. */
static int add_node(struct gpu_node **node, struct gpu_graph *graph, const struct gpu_node_params *params) {
    if (params->function == NULL || (params->function->spins && params->arguments == NULL))
        return INVALID_VALUE;
    struct gpu_node made = {
        .duration_ns = kernel_duration_ns(params->function, params->arguments),
        .work =
            {
                .kind = GPU_KERNEL,
                .function = params->function,
                .grid = params->grid,
                .block = params->block,
                .shared_bytes = params->shared_bytes,
            },
    };
    *node = append(graph, &made);
    return SUCCESS;
}

EXPORT int cuGraphAddKernelNode(struct gpu_node **node, struct gpu_graph *graph, struct gpu_node *const *dependencies,
                                size_t count, const struct gpu_node_params *node_params) {
    DRIVER_ENTER(cuGraphAddKernelNode, node, graph, dependencies, count, node_params);
    DRIVER_LEAVE(add_node(node, graph, node_params));
}

EXPORT int cuGraphAddKernelNode_v2(struct gpu_node **node, struct gpu_graph *graph,
                                   struct gpu_node *const *dependencies, size_t count,
                                   const struct gpu_node_params *node_params) {
    DRIVER_ENTER(cuGraphAddKernelNode_v2, node, graph, dependencies, count, node_params);
    DRIVER_LEAVE(add_node(node, graph, node_params));
}

/* The executable graph has an id, and its nodes have ids, of their own. */
static int instantiate(struct gpu_graph **executable, const struct gpu_graph *graph) {
    *executable = calloc(1, sizeof **executable);
    (*executable)->id = ++graph_count;
    for (const struct gpu_node *node = graph->nodes; node != NULL; node = node->next)
        append(*executable, node);
    return SUCCESS;
}

EXPORT int cuGraphInstantiate(struct gpu_graph **executable, struct gpu_graph *graph, void **error_node, char *log,
                              size_t log_bytes) {
    DRIVER_ENTER(cuGraphInstantiate, executable, graph, error_node, log, log_bytes);
    DRIVER_LEAVE(instantiate(executable, graph));
}

EXPORT int cuGraphInstantiate_v2(struct gpu_graph **executable, struct gpu_graph *graph, void **error_node, char *log,
                                 size_t log_bytes) {
    DRIVER_ENTER(cuGraphInstantiate_v2, executable, graph, error_node, log, log_bytes);
    DRIVER_LEAVE(instantiate(executable, graph));
}

EXPORT int cuGraphInstantiateWithFlags(struct gpu_graph **executable, struct gpu_graph *graph,
                                       unsigned long long flags) {
    DRIVER_ENTER(cuGraphInstantiateWithFlags, executable, graph, flags);
    DRIVER_LEAVE(instantiate(executable, graph));
}

EXPORT int cuGraphLaunch(struct gpu_graph *executable, struct gpu_stream *handle) {
    DRIVER_ENTER(cuGraphLaunch, executable, handle);
    struct gpu_stream *stream = gpu_stream_of(handle);
    if (stream == NULL)
        DRIVER_LEAVE(NO_CONTEXT);
    struct gpu_work whole = {.kind = GPU_GRAPH, .stream = stream, .graph_id = executable->id};
    gpu_stream_queue(&whole, executable->duration_ns);
    uint64_t start_ns = whole.start_ns;
    for (const struct gpu_node *node = executable->nodes; node != NULL; node = node->next) {
        struct gpu_work work = node->work;
        work.stream = stream;
        work.queued_ns = whole.queued_ns;
        work.start_ns = start_ns;
        work.end_ns = start_ns += node->duration_ns;
        GPU_TELL(work, &work);
    }
    GPU_TELL(work, &whole);
    DRIVER_LEAVE(SUCCESS);
}

static int destroy(struct gpu_graph *graph) {
    for (struct gpu_node *node = graph->nodes, *next; node != NULL; node = next) {
        next = node->next;
        free(node);
    }
    free(graph);
    return SUCCESS;
}

EXPORT int cuGraphExecDestroy(struct gpu_graph *executable) {
    DRIVER_ENTER(cuGraphExecDestroy, executable);
    DRIVER_LEAVE(destroy(executable));
}

EXPORT int cuGraphDestroy(struct gpu_graph *graph) {
    DRIVER_ENTER(cuGraphDestroy, graph);
    DRIVER_LEAVE(destroy(graph));
}
