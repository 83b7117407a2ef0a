/* Inside libcudart: how it finds the driver, and the first and the last line of each of its functions. */
#ifndef FAKE_GPU_RUNTIME_H
#define FAKE_GPU_RUNTIME_H

#include <dlfcn.h>

#include "driver.h"

/* libcuda.so.1, loaded and initialised at the first call into the runtime; NULL where there is none. */
extern void *runtime_driver;
/* A function of the driver. Only after RUNTIME_ENTER, and where runtime_context said that all is well. */
#define DRIVER(function)                                          \
    ({                                                            \
        static __typeof__(&function) found_;                      \
        if (found_ == NULL)                                       \
            *(void **)&found_ = dlsym(runtime_driver, #function); \
        found_;                                                   \
    })

void runtime_enter(struct gpu_call *call);
int runtime_leave(struct gpu_call *call, int result);
/* Sees to it that the thread has a context: its device's primary one. Returns the error, 0: none. */
int runtime_context(void);
/* The primary context of a device, NULL: none such. */
struct gpu_context *runtime_primary(int device);

#define RUNTIME_LAUNCH_ENTER(function, symbol, ...)       \
    GPU_CALL(GPU_RUNTIME, function, symbol, __VA_ARGS__); \
    runtime_enter(&call)
#define RUNTIME_ENTER(function, ...)                                  \
    GPU_CALL(GPU_RUNTIME, function, NULL __VA_OPT__(, ) __VA_ARGS__); \
    runtime_enter(&call)
#define RUNTIME_LEAVE(result) return runtime_leave(&call, result)
/* The usual last line: without a context its error, otherwise what the driver says. */
#define RUNTIME_DRIVE(function, ...) RUNTIME_LEAVE(runtime_context() ?: DRIVER(function)(__VA_ARGS__))

#endif
