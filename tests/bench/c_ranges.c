/* What a range costs in C: ns for begin and end, idle and recording, next to two reads of the clock. Medians of rounds; a round is shorter than a ring. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "range.h"
#include "self.h"

#define ROUNDS 31
#define RANGES 10000

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

static volatile uint64_t sink;

static double clocks(void) {
    uint64_t start = now_ns();
    for (int i = 0; i < RANGES; i++)
        sink = now_ns() + now_ns();
    return (double)(now_ns() - start) / RANGES;
}

static double ranges(uint32_t name) {
    struct pln_token token;
    uint64_t start = now_ns();
    for (int i = 0; i < RANGES; i++) {
        pln_begin(&token, name, 0, PLN_SOURCE_C);
        pln_end(&token);
    }
    return (double)(now_ns() - start) / RANGES;
}

int main(void) {
    double idle[ROUNDS], recording[ROUNDS], two_clocks[ROUNDS];
    pln_setup();
    uint32_t name = pln_intern("range", 5);
    ranges(name);
    for (int i = 0; i < ROUNDS; i++)
        idle[i] = ranges(name);
    if (pln_self_start(memfd_create("spool", 0)) != 0)
        return 1;
    ranges(name);
    for (int i = 0; i < ROUNDS; i++) {
        two_clocks[i] = clocks();
        recording[i] = ranges(name);
    }
    struct pln_sink delivered;
    pln_self_stop(&delivered, NULL, 0);
    printf("a range in C: idle %.1f ns, recording %.1f ns, two clock reads beside it %.1f ns\n", median(idle),
           median(recording), median(two_clocks));
    return 0;
}
