/* SPDX-License-Identifier: Apache-2.0
 *
 * From full buffers into the ring of the calling thread.
 */
#ifndef PLN_CUPTI_READING_H
#define PLN_CUPTI_READING_H

#include <stdint.h>

/* Activities get this epoch from now on. */
void cupti_reading_begin(uint32_t epoch);

/* Hands over what all full buffers hold; what it cannot read is counted and said. */
void cupti_read_buffers(void);

#endif
