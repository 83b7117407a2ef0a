/* The functions of CUDA that the stand-in offers, with their callback ids (the numbers are part of CUPTI's ABI). */
#ifndef FAKE_GPU_CALLS_H
#define FAKE_GPU_CALLS_H

/* X(function, callback id), of the runtime also the version by which CUPTI names it */
#define DRIVER_CALLS(X)                  \
    X(cuInit, 1)                         \
    X(cuDriverGetVersion, 2)             \
    X(cuDeviceGet, 3)                    \
    X(cuDeviceGetCount, 4)               \
    X(cuDeviceGetName, 5)                \
    X(cuCtxSynchronize, 17)              \
    X(cuModuleLoadData, 19)              \
    X(cuModuleUnload, 22)                \
    X(cuModuleGetFunction, 23)           \
    X(cuEventCreate, 118)                \
    X(cuEventRecord, 119)                \
    X(cuEventQuery, 120)                 \
    X(cuEventSynchronize, 121)           \
    X(cuEventElapsedTime, 123)           \
    X(cuStreamCreate, 124)               \
    X(cuStreamQuery, 125)                \
    X(cuStreamSynchronize, 126)          \
    X(cuMemsetD8Async, 216)              \
    X(cuCtxCreate_v2, 235)               \
    X(cuMemAlloc_v2, 243)                \
    X(cuMemFree_v2, 245)                 \
    X(cuMemsetD8_v2, 249)                \
    X(cuDeviceTotalMem_v2, 259)          \
    X(cuMemcpyHtoD_v2, 276)              \
    X(cuMemcpyHtoDAsync_v2, 277)         \
    X(cuMemcpyDtoH_v2, 278)              \
    X(cuMemcpyDtoHAsync_v2, 279)         \
    X(cuMemcpyDtoD_v2, 280)              \
    X(cuMemcpyDtoDAsync_v2, 281)         \
    X(cuStreamWaitEvent, 295)            \
    X(cuCtxSetCurrent, 303)              \
    X(cuCtxGetCurrent, 304)              \
    X(cuMemcpyAsync, 306)                \
    X(cuLaunchKernel, 307)               \
    X(cuMemcpyPeerAsync, 319)            \
    X(cuCtxDestroy_v2, 322)              \
    X(cuEventDestroy_v2, 325)            \
    X(cuStreamDestroy_v2, 326)           \
    X(cuDevicePrimaryCtxRetain, 386)     \
    X(cuGraphCreate, 501)                \
    X(cuGraphAddKernelNode, 502)         \
    X(cuGraphInstantiate, 513)           \
    X(cuGraphLaunch, 514)                \
    X(cuGraphExecDestroy, 516)           \
    X(cuGraphDestroy, 517)               \
    X(cuDevicePrimaryCtxRelease_v2, 544) \
    X(cuGraphInstantiate_v2, 578)        \
    X(cuMemAllocAsync, 598)              \
    X(cuMemFreeAsync, 600)               \
    X(cuGraphInstantiateWithFlags, 643)  \
    X(cuCtxCreate_v3, 645)               \
    X(cuLaunchKernelEx, 652)             \
    X(cuGraphAddKernelNode_v2, 689)      \
    X(cuCtxCreate_v4, 757)               \
    X(cuEventElapsedTime_v2, 780)
#define RUNTIME_CALLS(X)                                               \
    X(cudaDriverGetVersion, 1, v3020)                                  \
    X(cudaRuntimeGetVersion, 2, v3020)                                 \
    X(cudaGetDeviceCount, 3, v3020)                                    \
    X(cudaGetLastError, 10, v3020)                                     \
    X(cudaSetDevice, 16, v3020)                                        \
    X(cudaGetDevice, 17, v3020)                                        \
    X(cudaMalloc, 20, v3020)                                           \
    X(cudaFree, 22, v3020)                                             \
    X(cudaMemcpy, 31, v3020)                                           \
    X(cudaMemcpyAsync, 41, v3020)                                      \
    X(cudaMemset, 49, v3020)                                           \
    X(cudaMemsetAsync, 51, v3020)                                      \
    X(cudaStreamCreate, 129, v3020)                                    \
    X(cudaStreamSynchronize, 131, v3020)                               \
    X(cudaStreamQuery, 132, v3020)                                     \
    X(cudaEventCreate, 133, v3020)                                     \
    X(cudaEventCreateWithFlags, 134, v3020)                            \
    X(cudaEventRecord, 135, v3020)                                     \
    X(cudaEventDestroy, 136, v3020)                                    \
    X(cudaEventSynchronize, 137, v3020)                                \
    X(cudaEventQuery, 138, v3020)                                      \
    X(cudaEventElapsedTime, 139, v3020)                                \
    X(cudaStreamWaitEvent, 147, v3020)                                 \
    X(cudaMemcpyPeerAsync, 161, v4000)                                 \
    X(cudaDeviceSynchronize, 165, v3020)                               \
    X(cudaStreamCreateWithFlags, 198, v5000)                           \
    X(cudaStreamDestroy, 201, v5050)                                   \
    X(cudaLaunchKernel, 211, v7000)                                    \
    X(cudaGraphCreate, 286, v10000)                                    \
    X(cudaGraphAddKernelNode, 289, v10000)                             \
    X(cudaGraphInstantiate, CUDA_VERSION >= 12000 ? 443 : 310, v10000) \
    X(cudaGraphLaunch, 311, v10000)                                    \
    X(cudaGraphExecDestroy, 313, v10000)                               \
    X(cudaGraphDestroy, 314, v10000)                                   \
    X(cudaMallocAsync, 373, v11020)                                    \
    X(cudaFreeAsync, 375, v11020)                                      \
    X(cudaLaunchKernelExC, 430, v11060)                                \
    X(__cudaLaunchKernel, 505, v13000)
#define GPU_CBID(function, id, ...) CBID_##function = id,
enum { DRIVER_CALLS(GPU_CBID) RUNTIME_CALLS(GPU_CBID) };
#undef GPU_CBID

#endif
