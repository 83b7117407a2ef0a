/* The device's memory: host memory at addresses that only it has. What is freed is given again to who asks for the size. */
#include <pthread.h>
#include <sys/mman.h>

#include "device.h"

#define SPACE_BYTES ((uint64_t)64 << 30) /* of addresses; pages that nobody writes cost nothing */
#define ALIGNMENT 512u

struct block {
    uint64_t bytes; /* asked for; 0: free */
    uint64_t room; /* of what follows */
    struct block *next_free;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *space;
static uint64_t used;
static struct block *free_blocks;

static uint64_t rounded(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct block *take(uint64_t room) {
    for (struct block **link = &free_blocks; *link != NULL; link = &(*link)->next_free) {
        struct block *block = *link;
        if (block->room == room) {
            *link = block->next_free;
            return block;
        }
    }
    if (space == NULL) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *mapped = mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (mapped == MAP_FAILED)
            return NULL;
        space = mapped;
    }
    if (room > SPACE_BYTES - used - ALIGNMENT)
        return NULL;
    struct block *block = (struct block *)(void *)(space + used + ALIGNMENT - sizeof *block);
    used += ALIGNMENT + room;
    block->room = room;
    return block;
}

uint64_t gpu_memory_new(uint64_t bytes) {
    if (bytes == 0 || bytes > SPACE_BYTES / 2)
        return 0;
    pthread_mutex_lock(&lock);
    struct block *block = take(rounded(bytes));
    if (block != NULL)
        block->bytes = bytes;
    pthread_mutex_unlock(&lock);
    return block == NULL ? 0 : (uint64_t)(uintptr_t)(block + 1);
}

EXPORT bool fake_gpu_is_device_address(uint64_t address) {
    return space != NULL && address - (uint64_t)(uintptr_t)space < SPACE_BYTES;
}

uint64_t gpu_memory_free(uint64_t address) {
    if (!fake_gpu_is_device_address(address))
        return 0;
    struct block *block = (struct block *)(uintptr_t)address - 1;
    pthread_mutex_lock(&lock);
    uint64_t bytes = block->bytes;
    if (bytes != 0) {
        block->bytes = 0;
        block->next_free = free_blocks;
        free_blocks = block;
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}
