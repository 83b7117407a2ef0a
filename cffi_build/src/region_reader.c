/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a region that somebody else made, and checking all of it that is ever trusted.
 */
#define _GNU_SOURCE
#include "region_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Beyond what the library itself makes, within what arithmetic on 64 bits bears. */
#define STRINGS_BYTES_MAX (1ull << 30)
#define RING_RECORDS_MAX (1u << 22)
#define RING_MAX 65536u
#define PAGE_BYTES_MAX 65536u

/* Of all regions together: the process that reads them needs maps (vm.max_map_count, 65,530) and addresses (128 TB) for
 * itself, whatever the regions claim to hold. */
#define MAPPED_RINGS_MAX 32768u
#define MAPPED_BYTES_MAX (1ull << 45)

static uint64_t mapped_rings, mapped_bytes;

/* Only a memfd of ordinary pages that cannot shrink is read without fear of SIGBUS. */
static int check_file(int fd, uint64_t *size) {
    struct statfs filesystem;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return EPERM;
    if (fstatfs(fd, &filesystem) != 0 || fstat(fd, &status) != 0)
        return errno;
    if (filesystem.f_type != TMPFS_MAGIC)
        return EPERM; /* huge pages can run out under a reader */
    *size = (uint64_t)status.st_size;
    return 0;
}

static bool page_aligned(uint64_t offset) {
    return offset % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
}

static bool makes_sense(const struct pln_region *geometry, uint64_t file_bytes) {
    const struct pln_region *g = geometry;
    uint64_t ring_bytes = PLN_RING_HEADER + (uint64_t)g->ring_records * PLN_RECORD_SIZE;
    return g->magic == PLN_MAGIC && g->version == PLN_VERSION && g->ring_records > 0 &&
           g->ring_records <= RING_RECORDS_MAX && (g->ring_records & (g->ring_records - 1)) == 0 && g->ring_max > 0 &&
           g->ring_max <= RING_MAX && g->ring_stride >= ring_bytes && g->ring_stride < ring_bytes + PAGE_BYTES_MAX &&
           page_aligned(g->ring_stride) && g->strings_offset >= sizeof *g && g->strings_offset <= PAGE_BYTES_MAX &&
           page_aligned(g->strings_offset) && g->strings_size > 0 && g->strings_size <= STRINGS_BYTES_MAX &&
           g->strings_size % 8 == 0 && g->rings_offset >= g->strings_offset + g->strings_size &&
           g->rings_offset <= file_bytes && page_aligned(g->rings_offset);
}

static int open_region(struct pln_reader *reader, int fd) {
    uint64_t file_bytes;
    int error = check_file(fd, &file_bytes);
    if (error != 0)
        return error;
    ssize_t got = pread(fd, &reader->geometry, sizeof reader->geometry, 0);
    if (got < 0)
        return errno;
    if (got != sizeof reader->geometry || !makes_sense(&reader->geometry, file_bytes))
        return EPROTO;
    reader->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (reader->fd < 0)
        return errno;
    void *region = mmap(NULL, reader->geometry.strings_offset + reader->geometry.strings_size, PROT_READ | PROT_WRITE,
                        MAP_SHARED, reader->fd, 0);
    if (region == MAP_FAILED)
        return errno;
    reader->region = region;
    return 0;
}

pln_reader *pln_reader_open(int fd, uint32_t pid, uint32_t region, int *error) {
    struct pln_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        *error = ENOMEM;
        return NULL;
    }
    reader->fd = -1;
    reader->pid = pid;
    reader->number = region;
    *error = open_region(reader, fd);
    if (*error != 0) {
        pln_reader_close(reader);
        return NULL;
    }
    return reader;
}

static void give_maps_back(uint64_t count, uint64_t stride) {
    __atomic_sub_fetch(&mapped_rings, count, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&mapped_bytes, count * stride, __ATOMIC_RELAXED);
}

static bool take_map(uint64_t stride) {
    uint64_t rings = __atomic_add_fetch(&mapped_rings, 1, __ATOMIC_RELAXED);
    uint64_t bytes = __atomic_add_fetch(&mapped_bytes, stride, __ATOMIC_RELAXED);
    if (rings <= MAPPED_RINGS_MAX && bytes <= MAPPED_BYTES_MAX)
        return true;
    give_maps_back(1, stride);
    return false;
}

void pln_reader_close(pln_reader *reader) {
    for (uint32_t i = 0; i < reader->ring_count; i++)
        munmap(reader->rings[i].ring, reader->geometry.ring_stride);
    give_maps_back(reader->ring_count, reader->geometry.ring_stride);
    if (reader->region != NULL)
        munmap(reader->region, reader->geometry.strings_offset + reader->geometry.strings_size);
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->rings);
    free(reader);
}

static bool make_room(struct pln_reader *reader, uint32_t count) {
    if (count <= reader->ring_room)
        return true;
    uint32_t room = reader->ring_room * 2 > count ? reader->ring_room * 2 : count;
    struct ring_reader *rings = realloc(reader->rings, room * sizeof *rings);
    if (rings == NULL)
        return false;
    reader->rings = rings;
    reader->ring_room = room;
    return true;
}

/* What cannot be mapped now is tried again at the next drain. */
void pln_reader_map_rings(struct pln_reader *reader) {
    const struct pln_region *geometry = &reader->geometry;
    /* Acquire, pairs with the release store in thread.c: rings below it are initialised. */
    uint32_t count = __atomic_load_n(&reader->region->ring_count, __ATOMIC_ACQUIRE);
    if (count <= reader->ring_count)
        return;
    struct stat status;
    if (fstat(reader->fd, &status) != 0)
        return;
    uint64_t whole = ((uint64_t)status.st_size - geometry->rings_offset) / geometry->ring_stride;
    if (count > geometry->ring_max)
        count = geometry->ring_max;
    if (count > whole)
        count = (uint32_t)whole;
    if (!make_room(reader, count))
        return;
    while (reader->ring_count < count) {
        uint64_t offset = geometry->rings_offset + reader->ring_count * geometry->ring_stride;
        if (!take_map(geometry->ring_stride))
            return;
        void *ring = mmap(NULL, geometry->ring_stride, PROT_READ | PROT_WRITE, MAP_SHARED, reader->fd, (off_t)offset);
        if (ring == MAP_FAILED) {
            give_maps_back(1, geometry->ring_stride);
            return;
        }
        reader->rings[reader->ring_count++] = (struct ring_reader){.ring = ring};
    }
}

uint32_t pln_reader_pid(const pln_reader *reader) {
    return reader->geometry.pid;
}

uint64_t pln_reader_started_ns(const pln_reader *reader) {
    return reader->geometry.started_ns;
}

uint32_t pln_reader_ring_count(const pln_reader *reader) {
    return reader->ring_count;
}

int64_t pln_reader_tls_offset(const pln_reader *reader) {
    return reader->geometry.tls_offset;
}
