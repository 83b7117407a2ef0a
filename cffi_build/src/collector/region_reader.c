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

/* Of all regions together: whoever reads them needs addresses, of which there are 128 TB, for itself as well. */
#define MAPPED_BYTES_MAX (1ull << 46)

static uint64_t mapped_bytes;

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

static bool map_stretch(struct pln_reader *reader) {
    const struct pln_region *geometry = &reader->geometry;
    if (reader->stretch_count == PLN_STRETCHES)
        return false;
    uint64_t first = (1u << reader->stretch_count) - 1;
    uint64_t bytes = geometry->ring_stride << reader->stretch_count;
    void *stretch = MAP_FAILED;
    if (__atomic_add_fetch(&mapped_bytes, bytes, __ATOMIC_RELAXED) <= MAPPED_BYTES_MAX)
        stretch = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, reader->fd,
                       (off_t)(geometry->rings_offset + first * geometry->ring_stride));
    if (stretch == MAP_FAILED) {
        __atomic_sub_fetch(&mapped_bytes, bytes, __ATOMIC_RELAXED);
        return false;
    }
    reader->stretches[reader->stretch_count++] = stretch;
    return true;
}

static void unmap_stretches(struct pln_reader *reader) {
    while (reader->stretch_count > 0) {
        uint64_t bytes = reader->geometry.ring_stride << --reader->stretch_count;
        munmap(reader->stretches[reader->stretch_count], bytes);
        __atomic_sub_fetch(&mapped_bytes, bytes, __ATOMIC_RELAXED);
    }
}

void pln_reader_close(pln_reader *reader) {
    unmap_stretches(reader);
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
    /* An initialised ring has a page at least. One that has none would get it from us, by being looked at. */
    uint64_t backed = (uint64_t)status.st_blocks * 512 / PLN_RING_HEADER;
    if (whole > backed)
        whole = backed;
    if (count > geometry->ring_max)
        count = geometry->ring_max;
    if (count > whole)
        count = (uint32_t)whole;
    if (!make_room(reader, count))
        return;
    while (reader->ring_count < count) {
        if (reader->ring_count == (1u << reader->stretch_count) - 1 && !map_stretch(reader))
            return;
        unsigned last = reader->stretch_count - 1;
        uint64_t place = reader->ring_count - ((1u << last) - 1);
        struct pln_ring *ring = (struct pln_ring *)(reader->stretches[last] + place * geometry->ring_stride);
        reader->rings[reader->ring_count++] = (struct ring_reader){.ring = ring, .end = UINT64_MAX};
    }
}

uint32_t pln_reader_pid(const pln_reader *reader) {
    return reader->geometry.pid;
}

uint64_t pln_reader_started_ns(const pln_reader *reader) {
    return reader->geometry.started_ns;
}

int pln_reader_has_collector(const pln_reader *reader) {
    return __atomic_load_n(&reader->region->holds_back, __ATOMIC_RELAXED) != 0;
}

uint32_t pln_reader_ring_count(const pln_reader *reader) {
    return reader->ring_count;
}

int64_t pln_reader_tls_offset(const pln_reader *reader) {
    return reader->geometry.tls_offset;
}
