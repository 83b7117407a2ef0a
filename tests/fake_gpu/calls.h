/* The functions of CUDA that the stand-in offers, with their callback ids (the numbers are part of CUPTI's ABI). */
#ifndef FAKE_GPU_CALLS_H
#define FAKE_GPU_CALLS_H

/* X(function, callback id) */
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
#define RUNTIME_CALLS(X)                                       \
    X(cudaGetDeviceCount, 3)                                   \
    X(cudaGetLastError, 10)                                    \
    X(cudaSetDevice, 16)                                       \
    X(cudaGetDevice, 17)                                       \
    X(cudaMalloc, 20)                                          \
    X(cudaFree, 22)                                            \
    X(cudaMemcpy, 31)                                          \
    X(cudaMemcpyAsync, 41)                                     \
    X(cudaMemset, 49)                                          \
    X(cudaMemsetAsync, 51)                                     \
    X(cudaStreamCreate, 129)                                   \
    X(cudaStreamSynchronize, 131)                              \
    X(cudaEventCreate, 133)                                    \
    X(cudaEventCreateWithFlags, 134)                           \
    X(cudaEventRecord, 135)                                    \
    X(cudaEventDestroy, 136)                                   \
    X(cudaEventSynchronize, 137)                               \
    X(cudaEventQuery, 138)                                     \
    X(cudaEventElapsedTime, 139)                               \
    X(cudaStreamWaitEvent, 147)                                \
    X(cudaMemcpyPeerAsync, 161)                                \
    X(cudaDeviceSynchronize, 165)                              \
    X(cudaStreamCreateWithFlags, 198)                          \
    X(cudaStreamDestroy, 201)                                  \
    X(cudaLaunchKernel, 211)                                   \
    X(cudaGraphCreate, 286)                                    \
    X(cudaGraphAddKernelNode, 289)                             \
    X(cudaGraphInstantiate, CUDA_VERSION >= 12000 ? 443 : 310) \
    X(cudaGraphLaunch, 311)                                    \
    X(cudaGraphExecDestroy, 313)                               \
    X(cudaGraphDestroy, 314)                                   \
    X(cudaMallocAsync, 373)                                    \
    X(cudaFreeAsync, 375)                                      \
    X(cudaLaunchKernelExC, 430)                                \
    X(__cudaLaunchKernel, 505)
#define GPU_CBID(function, id) CBID_##function = id,
enum { DRIVER_CALLS(GPU_CBID) RUNTIME_CALLS(GPU_CBID) };
#undef GPU_CBID

#endif
