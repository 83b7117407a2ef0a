/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cupti_clock.h"

#include <stdbool.h>
#include <string.h>

#include "../clock.h"
#include "cupti_api.h"
#include "cupti_notice.h"
#include "cupti_record.h"

/* Ten minutes of ticks; then every other one is forgotten, and so on: the first stays, for what began long ago. */
#define PAIRS 12000
#define TRIES 5 /* the best of them: one that was interrupted says little */

static struct {
    bool is_ours;
    struct pln_clock_pair pairs[PAIRS];
    unsigned count;
    uint64_t bracket_ns;   /* the widest of all pairs */
    uint64_t deviation_ns; /* the largest of a pair from the line through its neighbours */
    uint64_t told_ns;
} clock_state;

static uint64_t between(const struct pln_clock_pair *pairs, uint64_t cupti_ns) {
    uint64_t span_ns = pairs[1].cupti_ns - pairs[0].cupti_ns;
    __int128 ours_ns = (__int128)pairs[1].monotonic_ns - pairs[0].monotonic_ns;
    return pairs[0].monotonic_ns + (uint64_t)(ours_ns * (cupti_ns - pairs[0].cupti_ns) / span_ns);
}

/* From the end: most records are of the last tick. A clock that was set back has several pairs at a time, the last of
 * which counts. */
uint64_t pln_clock_map(const struct pln_clock_pair *pairs, unsigned count, uint64_t cupti_ns) {
    unsigned after = count;
    while (after > 0 && pairs[after - 1].cupti_ns > cupti_ns)
        after--;
    if (after > 0 && after < count)
        return between(&pairs[after - 1], cupti_ns);
    const struct pln_clock_pair *nearest = &pairs[after > 0 ? count - 1 : 0];
    return nearest->monotonic_ns + (cupti_ns - nearest->cupti_ns);
}

static bool read_clock(uint64_t *now_ns) {
    if (cupti_api.timestamp != NULL)
        return cupti_api.timestamp(now_ns) == CUPTI_SUCCESS;
    struct timespec now; /* CUPTI's default */
    clock_gettime(CLOCK_REALTIME, &now);
    *now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return true;
}

static uint64_t distance(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

static void forget_every_other(void) {
    for (unsigned i = 1; i < PAIRS / 2; i++)
        clock_state.pairs[i] = clock_state.pairs[2 * i];
    clock_state.count = PAIRS / 2;
}

static void add(struct pln_clock_pair pair, uint64_t bracket_ns) {
    if (clock_state.count == PAIRS)
        forget_every_other();
    clock_state.pairs[clock_state.count++] = pair;
    if (bracket_ns > clock_state.bracket_ns)
        clock_state.bracket_ns = bracket_ns;
    if (clock_state.count < 3)
        return;
    const struct pln_clock_pair *last = &clock_state.pairs[clock_state.count - 3];
    const struct pln_clock_pair neighbours[] = {last[0], last[2]};
    uint64_t deviation_ns = distance(pln_clock_map(neighbours, 2, last[1].cupti_ns), last[1].monotonic_ns);
    if (deviation_ns > clock_state.deviation_ns)
        clock_state.deviation_ns = deviation_ns;
}

void cupti_clock_tick(void) {
    struct pln_clock_pair best = {0};
    uint64_t best_ns = UINT64_MAX;
    for (unsigned i = 0; i < TRIES && !clock_state.is_ours; i++) {
        uint64_t cupti_ns, before_ns = pln_now_ns();
        bool known = read_clock(&cupti_ns);
        uint64_t bracket_ns = pln_now_ns() - before_ns;
        if (known && bracket_ns < best_ns) {
            best = (struct pln_clock_pair){cupti_ns, before_ns + bracket_ns / 2};
            best_ns = bracket_ns;
        }
    }
    if (best_ns != UINT64_MAX)
        add(best, best_ns);
}

void cupti_clock_begin(void) {
    clock_state.count = 0;
    clock_state.bracket_ns = clock_state.deviation_ns = clock_state.told_ns = 0;
    clock_state.is_ours = cupti_api.register_clock != NULL && cupti_api.register_clock(pln_now_ns) == CUPTI_SUCCESS;
    cupti_clock_tick();
    cupti_clock_tell();
}

uint64_t cupti_clock_map(uint64_t cupti_ns) {
    if (clock_state.is_ours || cupti_ns == 0 || clock_state.count == 0)
        return cupti_ns;
    return pln_clock_map(clock_state.pairs, clock_state.count, cupti_ns);
}

void cupti_clock_tell(void) {
    uint64_t uncertainty_ns = (clock_state.bracket_ns + 1) / 2 + clock_state.deviation_ns;
    if (clock_state.is_ours || clock_state.count == 0 || uncertainty_ns <= clock_state.told_ns)
        return;
    clock_state.told_ns = uncertainty_ns;
    cupti_notice_clock(uncertainty_ns);
}
