/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers that CUPTI fills with activities: taken and given back on threads of the job, read on ours.
 */
#ifndef PLN_CUPTI_BUFFERS_H
#define PLN_CUPTI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cupti_buffer {
    uint8_t *bytes;
    size_t valid; /* bytes that hold records */
};

/* Returns false where there is no memory for them. They stay for good: CUPTI may keep some. What they hold of an earlier
 * session is none of this one's. */
bool cupti_buffers_open(void);

/* Gives the memory of free buffers back to the system. */
void cupti_buffers_trim(void);

/* CUPTI's callbacks. */
void cupti_buffers_request(uint8_t **buffer, size_t *size, size_t *max_records);
void cupti_buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* The next one that is full, in the order of their completion; give it back once read. */
bool cupti_buffers_take(struct cupti_buffer *buffer);
void cupti_buffers_give_back(const struct cupti_buffer *buffer);

/* Whether CUPTI has buffers that it has not given back. */
bool cupti_buffers_are_out(void);

/* CUPTI is gone: what it has not given back is ours again. */
void cupti_buffers_reclaim(void);

/* Activities that the driver itself dropped, of a context's stream or of all (NULL, 0), go to the region's losses. */
void cupti_count_dropped(void *context, uint32_t stream);

/* What it has dropped before a session is none of the session's. */
void cupti_forget_dropped(void);

/* In a fork child. */
void cupti_buffers_forget(void);

#endif
