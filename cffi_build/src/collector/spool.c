/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "spool_vector.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../clock.h"

/* Drops the first `done` bytes of *pieces. */
static unsigned advance(struct iovec **pieces, unsigned count, size_t done) {
    while (count > 0 && done >= (*pieces)->iov_len) {
        done -= (*pieces)->iov_len;
        (*pieces)++;
        count--;
    }
    if (count > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + done;
        (*pieces)->iov_len -= done;
    }
    return count;
}

static int write_all(int fd, struct iovec *pieces, unsigned count) {
    count = advance(&pieces, count, 0);
    while (count > 0) {
        ssize_t done = writev(fd, pieces, (int)count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        count = advance(&pieces, count, (size_t)done);
    }
    return 0;
}

int pln_spool_pieces(int fd, const struct pln_block *block, const struct iovec *pieces, unsigned count) {
    struct pln_block header = *block;
    header.magic = PLN_BLOCK_MAGIC;
    header.version = PLN_VERSION;
    header.written_ns = pln_now_ns();
    struct iovec copy[1 + PLN_SPOOL_PIECES] = {{&header, sizeof header}};
    memcpy(copy + 1, pieces, count * sizeof *pieces);

    off_t start = lseek(fd, 0, SEEK_END);
    if (start < 0)
        return -errno;
    int error = write_all(fd, copy, 1 + count);
    if (error != 0 && ftruncate(fd, start) != 0)
        return error; /* the reader drops a last block that is not whole */
    return error;
}

int pln_spool_block(int fd, const struct pln_block *block, const void *payload) {
    struct iovec piece = {(void *)payload, block->length};
    return pln_spool_pieces(fd, block, &piece, 1);
}

int pln_spool_json(int fd, const char *json, size_t size) {
    struct pln_block block = {.kind = PLN_BLOCK_JSON, .length = size};
    return pln_spool_block(fd, &block, json);
}
