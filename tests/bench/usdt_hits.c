/* SPDX-License-Identifier: Apache-2.0
 *
 * For each line on stdin, "hits N" or "launches N": passes a USDT probe so often, or the probe of a launch in a range, and
 * says how many ns one took. What is around it, a loop and a range, is measured by "ranges N".
 */
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>
#include <time.h>

#include "range.h"

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

__attribute__((noinline)) static void launch(uint32_t name, int probed) {
    struct pln_token token = {0};
    pln_begin(&token, name, 0, PLN_SOURCE_CUDA);
    if (probed)
        pln_probe_launch(token.range.seq, name);
    pln_end(&token);
}

int main(void) {
    char what[16];
    long count;
    while (scanf("%15s %ld", what, &count) == 2) {
        uint32_t name = pln_intern("launch", 6);
        double start_ns = now_ns();
        for (long i = 0; i < count; i++) {
            if (strcmp(what, "hits") == 0)
                DTRACE_PROBE2(bench, hit, i, what);
            else
                launch(name, strcmp(what, "launches") == 0);
        }
        printf("%.1f\n", (now_ns() - start_ns) / (double)count);
        fflush(stdout);
    }
    return 0;
}
