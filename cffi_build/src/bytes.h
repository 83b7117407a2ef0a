/* A growable buffer, off the record path: only the agent's reader allocates. */
#ifndef PILLION_BYTES_H
#define PILLION_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "kernel_ring.h"

/* Room for size more bytes at the end, or NULL when there is no memory; the caller counts the loss. */
static inline void *bytes_extend(struct pln_bytes *bytes, size_t size) {
    if (bytes->used + size > bytes->room) {
        size_t room = bytes->room ? bytes->room : 4096;
        while (room < bytes->used + size)
            room *= 2;
        char *data = realloc(bytes->data, room);
        if (!data)
            return NULL;
        bytes->data = data;
        bytes->room = room;
    }
    void *place = bytes->data + bytes->used;
    bytes->used += size;
    return place;
}

#endif
