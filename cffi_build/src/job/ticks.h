/* SPDX-License-Identifier: Apache-2.0
 *
 * CLOCK_MONOTONIC at the price of the processor's time stamp counter: a counter read takes 11 ns on the machine of the
 * measurements, a clock_gettime() 28, and a range reads the time twice. Counter and clock are compared again every
 * millisecond, so that a time is off by what two clocks drift apart in one: some 10 ns, which is what a comparison can
 * tell. Where the kernel itself does not trust the counter, every read is a clock_gettime().
 */
#ifndef PLN_TICKS_H
#define PLN_TICKS_H

#include <stdint.h>

#include "../clock.h"

/* The last comparison. Many threads read it, one at a time writes: sequence is odd meanwhile. All accesses are atomic,
 * and relaxed unless said otherwise. */
struct pln_comparison {
    uint32_t sequence;
    uint32_t unused;
    uint64_t ticks;
    uint64_t ns;
    uint64_t ns_per_tick; /* times 2^32 */
    uint64_t span_ticks;  /* how long it is good for; 0: there is none yet */
} __attribute__((aligned(64)));

extern struct pln_comparison pln_comparison;

/* Two threads that read the time at once may be apart by this at most, where a thread that was interrupted has kept the
 * others from comparing. */
#define PLN_LAG_NS 100000u

/* Compares anew if it can, and reads the clock if it cannot. */
uint64_t pln_compare_ns(void);

#if defined(__x86_64__)
static inline uint64_t pln_ticks(void) {
    return __builtin_ia32_rdtsc();
}

static inline uint64_t pln_ticks_to_ns(uint64_t ticks, uint64_t ns_per_tick) {
    return (uint64_t)((unsigned __int128)ticks * ns_per_tick >> 32);
}

static inline uint64_t pln_ticks_now_ns(void) {
    uint32_t sequence =
        __atomic_load_n(&pln_comparison.sequence, __ATOMIC_ACQUIRE); /* pairs with the writer's release */
    uint64_t elapsed = pln_ticks() - __atomic_load_n(&pln_comparison.ticks, __ATOMIC_RELAXED);
    uint64_t ns = __atomic_load_n(&pln_comparison.ns, __ATOMIC_RELAXED) +
                  pln_ticks_to_ns(elapsed, __atomic_load_n(&pln_comparison.ns_per_tick, __ATOMIC_RELAXED));
    uint64_t span = __atomic_load_n(&pln_comparison.span_ticks, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the loads above come before the one below */
    if (__builtin_expect(elapsed < span && (sequence & 1) == 0 &&
                             sequence == __atomic_load_n(&pln_comparison.sequence, __ATOMIC_RELAXED),
                         1))
        return ns;
    return pln_compare_ns();
}
void pln_ticks_forget(void);
#else
static inline uint64_t pln_ticks_now_ns(void) {
    return pln_now_ns();
}

static inline void pln_ticks_forget(void) {}
#endif

#endif
