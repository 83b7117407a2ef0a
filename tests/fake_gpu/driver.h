/* The functions of libcuda, with the structures that their callers fill in. CUresult is int, a CUdeviceptr uint64_t. */
#ifndef FAKE_GPU_DRIVER_H
#define FAKE_GPU_DRIVER_H

#include "gpu.h"

struct gpu_graph; /* a graph, or what is instantiated from it */
struct gpu_node;

struct gpu_launch_config { /* as CUlaunchConfig */
    struct gpu_dim grid, block;
    uint32_t shared_bytes;
    struct gpu_stream *stream;
    void *attributes;
    uint32_t attribute_count;
};

struct gpu_node_params { /* as CUDA_KERNEL_NODE_PARAMS, up to where its versions differ */
    struct gpu_function *function;
    struct gpu_dim grid, block;
    uint32_t shared_bytes;
    void **arguments;
    void **extra;
};

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuCtxCreate_v2(struct gpu_context **context, unsigned flags, int device);
int cuCtxCreate_v3(struct gpu_context **context, void *affinities, int count, unsigned flags, int device);
int cuCtxCreate_v4(struct gpu_context **context, void *creation, unsigned flags, int device);
int cuCtxDestroy_v2(struct gpu_context *context);
int cuDevicePrimaryCtxRetain(struct gpu_context **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(struct gpu_context *context);
int cuCtxGetCurrent(struct gpu_context **context);
int cuCtxSynchronize(void);
int cuStreamCreate(struct gpu_stream **stream, unsigned flags);
int cuStreamDestroy_v2(struct gpu_stream *stream);
int cuStreamQuery(struct gpu_stream *handle);
int cuStreamSynchronize(struct gpu_stream *handle);
int cuStreamWaitEvent(struct gpu_stream *handle, struct gpu_event *event, unsigned flags);
int cuEventCreate(struct gpu_event **event, unsigned flags);
int cuEventDestroy_v2(struct gpu_event *event);
int cuEventRecord(struct gpu_event *event, struct gpu_stream *handle);
int cuEventQuery(struct gpu_event *event);
int cuEventSynchronize(struct gpu_event *event);
int cuEventElapsedTime(float *milliseconds, struct gpu_event *from, struct gpu_event *to);
int cuEventElapsedTime_v2(float *milliseconds, struct gpu_event *from, struct gpu_event *to);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct gpu_stream *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct gpu_stream *stream);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct gpu_stream *stream);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct gpu_stream *stream);
int cuMemcpyPeerAsync(uint64_t to, struct gpu_context *to_context, uint64_t from, struct gpu_context *from_context,
                      size_t bytes, struct gpu_stream *handle);
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes);
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, struct gpu_stream *stream);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemAllocAsync(uint64_t *address, size_t bytes, struct gpu_stream *stream);
int cuMemFreeAsync(uint64_t address, struct gpu_stream *stream);
int cuModuleLoadData(void **module, const void *image);
int cuModuleUnload(void *module);
int cuModuleGetFunction(struct gpu_function **function, void *module, const char *name);
int cuLaunchKernel(struct gpu_function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, struct gpu_stream *stream,
                   void **arguments, void **extra);
int cuLaunchKernelEx(const struct gpu_launch_config *config, struct gpu_function *function, void **arguments,
                     void **extra);
int cuGraphCreate(struct gpu_graph **graph, unsigned flags);
int cuGraphAddKernelNode(struct gpu_node **node, struct gpu_graph *graph, struct gpu_node *const *dependencies,
                         size_t count, const struct gpu_node_params *node_params);
int cuGraphAddKernelNode_v2(struct gpu_node **node, struct gpu_graph *graph, struct gpu_node *const *dependencies,
                            size_t count, const struct gpu_node_params *node_params);
int cuGraphInstantiate(struct gpu_graph **executable, struct gpu_graph *graph, void **error_node, char *log,
                       size_t log_bytes);
int cuGraphInstantiate_v2(struct gpu_graph **executable, struct gpu_graph *graph, void **error_node, char *log,
                          size_t log_bytes);
int cuGraphInstantiateWithFlags(struct gpu_graph **executable, struct gpu_graph *graph, unsigned long long flags);
int cuGraphLaunch(struct gpu_graph *executable, struct gpu_stream *handle);
int cuGraphExecDestroy(struct gpu_graph *executable);
int cuGraphDestroy(struct gpu_graph *graph);

#endif
