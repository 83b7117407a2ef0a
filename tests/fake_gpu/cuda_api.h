/* What the jobs call of CUDA: its public interface, declared in own words. */
#ifndef FAKE_GPU_CUDA_API_H
#define FAKE_GPU_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned x, y, z;
} dim3;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;

struct cudaKernelNodeParams {
    const void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};

enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *device_name,
                            int thread_limit, void *thread, void *block, dim3 *block_dim, dim3 *grid_dim, int *warp);

int cudaGetDeviceCount(int *count);
int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaGetLastError(void);
int cudaDeviceSynchronize(void);
const char *cudaGetErrorString(int error);
int cudaStreamCreate(cudaStream_t *stream);
int cudaStreamSynchronize(cudaStream_t stream);
int cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
int cudaEventCreate(cudaEvent_t *event);
int cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
int cudaEventSynchronize(cudaEvent_t event);
int cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream);
int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream);
int cudaMemsetAsync(void *address, int value, size_t bytes, cudaStream_t stream);
int cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream);
int cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
int cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                           const struct cudaKernelNodeParams *params);
#if CUDA_MAJOR >= 12
int cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags);
#else
int cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphNode_t *error_node, char *log,
                         size_t log_bytes);
#endif
int cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);

int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
int cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, cudaStream_t stream, void **arguments,
                   void **extra);

#endif
