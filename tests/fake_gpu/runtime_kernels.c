/* libcudart: the functions that a program's start-up code registers, launches and graphs. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"

struct kernel { /* what a program calls by the address of a host function, or by a cudaKernel_t */
    const void *host_function;
    const char *name;
    _Atomic(struct gpu_function *) function; /* NULL until it is first needed: registration must not start the driver */
    struct kernel *next;
};

struct runtime_config { /* as cudaLaunchConfig_t */
    struct gpu_dim grid, block;
    size_t shared_bytes;
    struct gpu_stream *stream;
    void *attributes;
    uint32_t attribute_count;
};

struct runtime_node_params { /* as cudaKernelNodeParams */
    const void *host_function;
    struct gpu_dim grid, block;
    uint32_t shared_bytes;
    void **arguments;
    void **extra;
};

static _Atomic(struct kernel *) kernels;

EXPORT void **__cudaRegisterFatBinary(void *binary) {
    void **handle = malloc(sizeof *handle);
    *handle = binary;
    return handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

EXPORT void __cudaUnregisterFatBinary(void **handle) {
    free(handle);
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
                                   const char *device_name, int thread_limit, void *thread, void *block,
                                   void *block_dim, void *grid_dim, int *warp_size) {
    (void)handle, (void)device_function, (void)thread_limit;
    (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)warp_size;
    struct kernel *kernel = calloc(1, sizeof *kernel);
    kernel->host_function = host_function;
    kernel->name = device_name;
    kernel->next = kernels;
    while (!__atomic_compare_exchange_n((struct kernel **)&kernels, &kernel->next, kernel, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
}

static struct kernel *kernel_of(const void *host_function) {
    struct kernel *kernel = kernels;
    while (kernel != NULL && kernel->host_function != host_function)
        kernel = kernel->next;
    return kernel;
}

static const char *name_of(const struct kernel *kernel) {
    return kernel == NULL ? NULL : kernel->name;
}

/* Needs a context. */
static struct gpu_function *function_of(struct kernel *kernel) {
    if (kernel == NULL)
        return NULL;
    struct gpu_function *function = kernel->function;
    if (function == NULL) {
        void *module = NULL;
        DRIVER(cuModuleLoadData)(&module, "");
        DRIVER(cuModuleGetFunction)(&function, module, kernel->name);
        kernel->function = function;
    }
    return function;
}

static int launch(struct kernel *kernel, struct gpu_dim grid, struct gpu_dim block, void **arguments, size_t shared,
                  struct gpu_stream *stream) {
    int error = runtime_context();
    if (error != SUCCESS)
        return error;
    struct gpu_function *function = function_of(kernel);
    if (function == NULL)
        return INVALID_DEVICE_FUNCTION;
    return DRIVER(cuLaunchKernel)(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
                                  arguments, NULL);
}

EXPORT int cudaLaunchKernel(const void *host_function, struct gpu_dim grid, struct gpu_dim block, void **arguments,
                            size_t shared, struct gpu_stream *stream) {
    struct kernel *kernel = kernel_of(host_function);
    RUNTIME_LAUNCH_ENTER(cudaLaunchKernel, name_of(kernel), host_function, grid, block, arguments, shared, stream);
    RUNTIME_LEAVE(launch(kernel, grid, block, arguments, shared, stream));
}

EXPORT int cudaLaunchKernelExC(const struct runtime_config *config, const void *host_function, void **arguments) {
    struct kernel *kernel = kernel_of(host_function);
    RUNTIME_LAUNCH_ENTER(cudaLaunchKernelExC, name_of(kernel), config, host_function, arguments);
    int error = runtime_context();
    struct gpu_function *function = error == SUCCESS ? function_of(kernel) : NULL;
    if (function == NULL)
        RUNTIME_LEAVE(error != SUCCESS ? error : INVALID_DEVICE_FUNCTION);
    struct gpu_launch_config driver_config = {
        .grid = config->grid,
        .block = config->block,
        .shared_bytes = (uint32_t)config->shared_bytes,
        .stream = config->stream,
        .attributes = config->attributes,
        .attribute_count = config->attribute_count,
    };
    RUNTIME_LEAVE(DRIVER(cuLaunchKernelEx)(&driver_config, function, arguments, NULL));
}

#if CUDA_VERSION >= 12000
/* What nvcc 13 compiles <<<…>>> to: the program asks for the kernel once and launches by it. */
EXPORT int __cudaGetKernel(struct kernel **kernel, const void *host_function) {
    *kernel = kernel_of(host_function);
    return *kernel == NULL ? INVALID_DEVICE_FUNCTION : SUCCESS;
}

EXPORT int __cudaLaunchKernel(struct kernel *kernel, struct gpu_dim grid, struct gpu_dim block, void **arguments,
                              size_t shared, struct gpu_stream *stream) {
    RUNTIME_LAUNCH_ENTER(__cudaLaunchKernel, name_of(kernel), kernel, grid, block, arguments, shared, stream);
    RUNTIME_LEAVE(launch(kernel, grid, block, arguments, shared, stream));
}
#endif

/* ---- graphs ---- */

EXPORT int cudaGraphCreate(struct gpu_graph **graph, unsigned flags) {
    RUNTIME_ENTER(cudaGraphCreate, graph, flags);
    RUNTIME_DRIVE(cuGraphCreate, graph, flags);
}

EXPORT int cudaGraphAddKernelNode(struct gpu_node **node, struct gpu_graph *graph, struct gpu_node *const *dependencies,
                                  size_t count, const struct runtime_node_params *node_params) {
    RUNTIME_ENTER(cudaGraphAddKernelNode, node, graph, dependencies, count, node_params);
    int error = runtime_context();
    struct gpu_function *function = error == SUCCESS ? function_of(kernel_of(node_params->host_function)) : NULL;
    if (function == NULL)
        RUNTIME_LEAVE(error != SUCCESS ? error : INVALID_DEVICE_FUNCTION);
    struct {
        struct gpu_node_params common;
        void *kernel, *context; /* as of CUDA 12 */
    } driver_params = {
        .common =
            {
                .function = function,
                .grid = node_params->grid,
                .block = node_params->block,
                .shared_bytes = node_params->shared_bytes,
                .arguments = node_params->arguments,
            },
    };
    RUNTIME_LEAVE(DRIVER(cuGraphAddKernelNode_v2)(node, graph, dependencies, count, &driver_params.common));
}

#if CUDA_VERSION >= 12000
EXPORT int cudaGraphInstantiate(struct gpu_graph **executable, struct gpu_graph *graph, unsigned long long flags) {
    RUNTIME_ENTER(cudaGraphInstantiate, executable, graph, flags);
    RUNTIME_DRIVE(cuGraphInstantiateWithFlags, executable, graph, flags);
}
#else
EXPORT int cudaGraphInstantiate(struct gpu_graph **executable, struct gpu_graph *graph, struct gpu_node **error_node,
                                char *log, size_t log_bytes) {
    RUNTIME_ENTER(cudaGraphInstantiate, executable, graph, error_node, log, log_bytes);
    RUNTIME_DRIVE(cuGraphInstantiate_v2, executable, graph, (void **)error_node, log, log_bytes);
}
#endif

EXPORT int cudaGraphLaunch(struct gpu_graph *executable, struct gpu_stream *stream) {
    RUNTIME_ENTER(cudaGraphLaunch, executable, stream);
    RUNTIME_DRIVE(cuGraphLaunch, executable, stream);
}

EXPORT int cudaGraphExecDestroy(struct gpu_graph *executable) {
    RUNTIME_ENTER(cudaGraphExecDestroy, executable);
    RUNTIME_DRIVE(cuGraphExecDestroy, executable);
}

EXPORT int cudaGraphDestroy(struct gpu_graph *graph) {
    RUNTIME_ENTER(cudaGraphDestroy, graph);
    RUNTIME_DRIVE(cuGraphDestroy, graph);
}
