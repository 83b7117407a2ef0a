/* SPDX-License-Identifier: Apache-2.0
 *
 * The one clock of every time that crosses a process border.
 */
#ifndef PLN_CLOCK_H
#define PLN_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t pln_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
