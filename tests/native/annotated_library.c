/* A shared library that embeds NVTX and leaves ranges open. */
#include "nvtx_client.h"

__attribute__((visibility("default"))) void push_some(void) {
    nvtx_initialize();
    void *domain = nvtx_domain("of the library");
    nvtx_push("pushed by the library");
    nvtx_domain_push(domain, nvtx_string(domain, "pushed in its domain"));
    nvtx_start("started by the library");
}
