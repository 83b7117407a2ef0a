/* Finds its own innermost range as an eBPF program does: thread pointer, tls_offset, ring, depth, open[]. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "range.h"

static const struct pln_region *region;

static char *thread_pointer(void) {
#if defined(__x86_64__)
    char *pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return __builtin_thread_pointer();
#endif
}

static void *find(void *found) {
    PLN_SCOPE("from C");
    const struct pln_ring *ring = *(struct pln_ring **)(thread_pointer() + region->tls_offset);
    const struct pln_open *open = (const struct pln_open *)((const char *)ring + PLN_OPEN_OFFSET);
    *(uint32_t *)found = ring->depth > 0 ? open[ring->depth - 1].name : 0;
    return NULL;
}

int main(void) {
    if (pln_setup() != 0)
        return 1;
    region = mmap(NULL, 128 << 10, PROT_READ, MAP_SHARED, pln_region_fd(), 0);
    if (region == MAP_FAILED)
        return 1;
    uint32_t here, there;
    pthread_t thread;
    find(&here);
    pthread_create(&thread, NULL, find, &there);
    pthread_join(thread, NULL);
    const char *entry = (const char *)region + region->strings_offset + 8ul * here;
    printf("%.*s\n", (int)*(const uint32_t *)entry, entry + 8);
    return here == there ? 0 : 1;
}
