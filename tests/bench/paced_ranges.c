/* Ends RATE ranges a second on one thread for SECONDS seconds: a burst every millisecond, as fast as it can. Prints how
 * many there were and how many seconds it took. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "range.h"

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv) {
    uint64_t rate = strtoull(argv[argc - 2], NULL, 10), seconds = strtoull(argv[argc - 1], NULL, 10);
    pln_setup();
    uint32_t name = pln_intern("range", 5);
    puts("ready");
    fflush(stdout);
    getchar();
    uint64_t start_ns = now_ns(), ranges = 0;
    for (uint64_t ms = 1; ms <= seconds * 1000; ms++) {
        for (; ranges < rate * ms / 1000; ranges++) {
            struct pln_token token;
            pln_begin(&token, name, 0, PLN_SOURCE_C);
            pln_end(&token);
        }
        while (now_ns() - start_ns < ms * 1000000)
            ;
    }
    printf("%llu %.3f\n", (unsigned long long)ranges, (double)(now_ns() - start_ns) / 1e9);
    return 0;
}
