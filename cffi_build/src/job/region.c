/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's own region: made at the first range, replaced in a fork child, never unmapped otherwise.
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../gpu/cupti.h"
#include "control.h"
#include "ticks.h"

#define STRINGS_BYTES (64u << 20) /* sparse: pages that no name reached do not exist */
/* 8 MB, sparse: Python's fastest loop of ranges, 290 ns each, fills it in 38 ms, and a collector comes every 25. */
#define RING_RECORDS 131072u
#define RING_RECORDS_MIN 64u
#define RING_RECORDS_MAX (1u << 22)

const uint32_t pln_not_set_up = 1;
static const uint32_t unavailable = 0;

struct pln_process pln_process = {.recording = &pln_not_set_up, .fd = -1, .generation = 1};
pthread_mutex_t pln_process_mutex = PLN_MUTEX_INITIALIZER;

/* Records that somebody may have wanted while there was no descriptor or no memory for a region. */
static uint64_t lost_before;

/* Whether a new region records from the start: what the environment says, or what a fork inherits. */
static enum { RECORD_AS_ENVIRONMENT, RECORD_NOT, RECORD_AT_ONCE } birth = RECORD_AS_ENVIRONMENT;

static bool records_at_birth(void) {
    if (birth != RECORD_AS_ENVIRONMENT)
        return birth == RECORD_AT_ONCE;
    const char *value = secure_getenv("PILLION_RECORD");
    return value != NULL && strcmp(value, "1") == 0;
}

static uint32_t ring_records(void) {
    const char *text = secure_getenv("PILLION_RING_RECORDS");
    char *end;
    unsigned long value = text != NULL ? strtoul(text, &end, 10) : 0;
    if (value < RING_RECORDS_MIN || value > RING_RECORDS_MAX || (value & (value - 1)) != 0 || *end != '\0')
        return RING_RECORDS;
    return (uint32_t)value;
}

static uint64_t round_up(uint64_t size, uint64_t page) {
    return (size + page - 1) & ~(page - 1);
}

static int64_t tls_offset(void) {
#if defined(__x86_64__)
    char *thread_pointer;
    __asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
#else
    char *thread_pointer = __builtin_thread_pointer();
#endif
    return (char *)&pln_ring - thread_pointer;
}

/* A file size beyond RLIMIT_FSIZE would not fail but kill the job with SIGXFSZ. */
int pln_region_grow(int fd, uint64_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur)
        return -EFBIG;
    return ftruncate(fd, (off_t)size) == 0 ? 0 : -errno;
}

/* A job that closes every descriptor may have opened a file of its own under our number: never touch that. */
bool pln_region_fd_is_ours(void) {
    struct stat now;
    return pln_process.fd >= 0 && fstat(pln_process.fd, &now) == 0 && now.st_dev == pln_process.device &&
           now.st_ino == pln_process.inode;
}

static void fill_header(struct pln_region *region, const struct pln_region *geometry) {
    *region = *geometry;
    region->magic = PLN_MAGIC;
    region->version = PLN_VERSION;
    region->pid = (uint32_t)getpid();
    region->started_ns = pln_now_ns();
    region->tls_offset = tls_offset();
    if (records_at_birth()) {
        region->recording = 1;
        region->consumer_kind = PLN_CONSUMER_AGENT;
        region->lease_ns = region->started_ns;
    }
}

static int map_region(int fd) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t records = ring_records();
    struct pln_region geometry = {
        .strings_offset = round_up(sizeof(struct pln_region), page),
        .strings_size = STRINGS_BYTES,
        .ring_records = records,
        .ring_max = PLN_RING_MAX,
        .ring_stride = round_up(PLN_RING_HEADER + (uint64_t)records * PLN_RECORD_SIZE, page),
    };
    geometry.rings_offset = geometry.strings_offset + geometry.strings_size;
    int error = pln_region_grow(fd, geometry.rings_offset);
    if (error != 0)
        return error;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return -errno;
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    struct pln_region *region = mmap(NULL, geometry.rings_offset, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        return -errno;
    fill_header(region, &geometry);
    pln_process.region = region;
    pln_process.header_bytes = geometry.rings_offset;
    pln_process.ring_stride = geometry.ring_stride;
    pln_process.ring_mask = records - 1;
    pln_process.fd = fd;
    pln_process.device = status.st_dev;
    pln_process.inode = status.st_ino;
    return pln_strings_init();
}

static void unmap_region(void) {
    if (pln_process.region != NULL)
        munmap(pln_process.region, pln_process.header_bytes);
    pln_process.region = NULL;
    pln_process.fd = -1;
}

static void before_fork(void) {
    pln_control_prepare();
    pln_self_prepare();
    pthread_mutex_lock(&pln_process_mutex);
    pln_strings_prepare();
}

static void after_fork_parent(void) {
    pln_strings_parent();
    pthread_mutex_unlock(&pln_process_mutex);
    pln_self_parent();
    pln_control_parent();
}

/* The child shares nothing with its parent: its first range makes it a region of its own. */
static void after_fork_child(void) {
    struct pln_region *region = pln_process.region;
    if (region != NULL) {
        bool inherits = __atomic_load_n(&region->recording, __ATOMIC_RELAXED) != 0 &&
                        __atomic_load_n(&region->consumer_kind, __ATOMIC_RELAXED) == PLN_CONSUMER_AGENT;
        birth = inherits ? RECORD_AT_ONCE : RECORD_NOT;
        if (pln_region_fd_is_ours())
            close(pln_process.fd);
    }
    pln_threads_forget();
    pln_strings_forget();
    unmap_region();
    pln_self_forget();
    pln_control_forget();
    pln_ticks_forget();
    pln_process.error = 0;
    lost_before = 0;
    pln_process.generation++;
    pln_process_mutex = (pthread_mutex_t)PLN_MUTEX_INITIALIZER; /* its owner was another thread id */
    __atomic_store_n(&pln_process.recording, &pln_not_set_up, __ATOMIC_RELEASE);
}

static int make_region(void) {
    static bool fork_handled; /* handlers stay over a fork */
    if (!fork_handled) {
        int error = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
        if (error != 0)
            return -error;
        fork_handled = true;
    }
    int fd = memfd_create("pillion", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int error = map_region(fd);
    if (error != 0) {
        unmap_region();
        close(fd);
        return error;
    }
    return 0;
}

/* Records before it asks: what an agent wants of this process begins with its first range. An agent that does not want it
 * switches recording off, and where no agent listens nobody knows. */
static void offer_region(void) {
    struct pln_region *region = pln_process.region;
    uint32_t asked_for = __atomic_load_n(&region->recording, __ATOMIC_RELAXED);
    region->consumer_kind = PLN_CONSUMER_AGENT;
    region->lease_ns = pln_now_ns();
    __atomic_store_n(&region->recording, 1, __ATOMIC_RELAXED);
    if (!pln_announce(pln_process.fd, region->pid) &&
        __atomic_load_n(&region->consumer_pid, __ATOMIC_RELAXED) == 0) /* nobody found it meanwhile */
        __atomic_store_n(&region->recording, asked_for, __ATOMIC_RELAXED);
}

/* A shortage of the moment: the next record tries again. */
static bool may_pass(int error) {
    return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

/* Under the mutex. */
static void begin_region(int error) {
    pln_process.error = error;
    if (error == 0)
        __atomic_fetch_add(&pln_process.region->lost_threads, __atomic_exchange_n(&lost_before, 0, __ATOMIC_RELAXED),
                           __ATOMIC_RELAXED);
    const uint32_t *recording = error == 0 ? &pln_process.region->recording : &unavailable;
    __atomic_store_n(&pln_process.recording, recording, __ATOMIC_RELEASE); /* pairs with pln_wanted() */
    if (error == 0)
        offer_region();
    else
        pln_announce(-1, (uint32_t)getpid());
}

int pln_setup(void) {
    if (__atomic_load_n(&pln_process.recording, __ATOMIC_ACQUIRE) != &pln_not_set_up)
        return pln_process.error;
    int saved_errno = errno;
    if (pthread_mutex_lock(&pln_process_mutex) != 0)
        return -EDEADLK;
    bool first = pln_process.recording == &pln_not_set_up;
    int error = first ? make_region() : pln_process.error;
    if (first && !may_pass(error))
        begin_region(error);
    pthread_mutex_unlock(&pln_process_mutex);
    if (first && error == 0) {
        pln_control_begin(); /* a fork child's sources came along */
        pln_cupti_look();
    }
    errno = saved_errno;
    return error;
}

void pln_lose_without_region(void) {
    __atomic_fetch_add(&lost_before, 1, __ATOMIC_RELAXED);
}

int pln_active(void) {
    if (PLN_LIKELY(!pln_wanted()))
        return 0;
    if (pln_setup() != 0) {
        pln_lose_without_region();
        return 0;
    }
    return pln_wanted();
}

uint32_t pln_generation(void) {
    return pln_process.generation;
}

int pln_region_fd(void) {
    return pln_process.fd;
}
