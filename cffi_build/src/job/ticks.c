/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ticks.h"

#if defined(__x86_64__)

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define SPAN_NS 1000000u
#define RATE_NS_MIN 10000000u   /* a pair is good to 30 ns: over 10 ms to 3 millionths */
#define RATE_NS_MAX 1000000000u /* so that the rate follows what NTP does to the clock */
#define BRACKET_TICKS_MAX 2000u /* about a microsecond: longer, and the thread was interrupted between two reads */
#define RATE_CHANGE_DIVISOR 1000u

struct pair {
    uint64_t ticks;
    uint64_t ns;
};

struct pln_comparison pln_comparison;

/* Only with sequence odd. The rate is taken over the time since `older`, which is between one and two RATE_NS_MAX ago. */
static struct pair older, newer;

static enum { UNKNOWN, TRUSTED, NOT_TRUSTED } counter;

/* The kernel has compared the processors' counters with each other, and goes on doing so, if it uses them itself. */
static bool kernel_trusts_counter(void) {
    char name[8] = {0};
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, name, sizeof name - 1);
    close(fd);
    return size >= 4 && memcmp(name, "tsc\n", 4) == 0;
}

static bool is_trusted(void) {
    int known = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    if (known == UNKNOWN) {
        known = kernel_trusts_counter() ? TRUSTED : NOT_TRUSTED;
        __atomic_store_n(&counter, known, __ATOMIC_RELAXED); /* two threads at once find the same */
    }
    return known == TRUSTED;
}

static void set(struct pair now, uint64_t ns_per_tick, uint64_t span_ticks) {
    __atomic_store_n(&pln_comparison.ticks, now.ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&pln_comparison.ns, now.ns, __ATOMIC_RELAXED);
    __atomic_store_n(&pln_comparison.ns_per_tick, ns_per_tick, __ATOMIC_RELAXED);
    __atomic_store_n(&pln_comparison.span_ticks, span_ticks, __ATOMIC_RELAXED);
}

static void start_over(struct pair now) {
    older = newer = now;
    set(now, 0, 0);
}

/* 0 while it is too early to tell. */
static uint64_t rate_at(struct pair now) {
    if (now.ns - newer.ns > RATE_NS_MAX) {
        older = newer;
        newer = now;
    }
    uint64_t ticks = now.ticks - older.ticks, ns = now.ns - older.ns;
    return ns < RATE_NS_MIN ? 0 : (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

/* With sequence odd. Returns the time at `now`, never earlier than what the comparison before said. */
static uint64_t compare(struct pair now) {
    uint64_t before = pln_comparison.ns_per_tick;
    if (older.ns == 0 || now.ticks <= newer.ticks || now.ns < newer.ns) {
        start_over(now);
        return now.ns;
    }
    uint64_t rate = rate_at(now);
    uint64_t change = rate > before ? rate - before : before - rate;
    if (rate == 0 || (before != 0 && change > before / RATE_CHANGE_DIVISOR)) {
        if (rate != 0)
            start_over(now); /* one of the two clocks has jumped */
        return now.ns;
    }
    uint64_t span_ticks = ((uint64_t)SPAN_NS << 32) / rate;
    uint64_t elapsed = now.ticks - pln_comparison.ticks;
    uint64_t said = pln_comparison.ns + pln_ticks_to_ns(elapsed, before);
    if (before != 0 && elapsed < 2 * span_ticks && said > now.ns && said - now.ns < PLN_LAG_NS) {
        rate -= ((said - now.ns) << 32) / span_ticks; /* goes more slowly until the clock has caught up */
        now.ns = said;
    }
    set(now, rate, span_ticks);
    return now.ns;
}

/* In a fork child: another thread of the parent may have been comparing. */
void pln_ticks_forget(void) {
    older = newer = (struct pair){0};
    pln_comparison = (struct pln_comparison){0};
}

uint64_t pln_compare_ns(void) {
    uint32_t sequence = __atomic_load_n(&pln_comparison.sequence, __ATOMIC_RELAXED);
    if (!is_trusted() || (sequence & 1) != 0)
        return pln_now_ns();
    uint64_t first = pln_ticks();
    uint64_t ns = pln_now_ns();
    uint64_t last = pln_ticks();
    if (last - first > BRACKET_TICKS_MAX ||
        !__atomic_compare_exchange_n(&pln_comparison.sequence, &sequence, sequence + 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return ns;
    __atomic_thread_fence(__ATOMIC_RELEASE); /* an odd sequence is seen before what is stored next */
    ns = compare((struct pair){first + (last - first) / 2, ns});
    /* Release, pairs with the reader's acquire. */
    __atomic_store_n(&pln_comparison.sequence, sequence + 2, __ATOMIC_RELEASE);
    return ns;
}

#endif
