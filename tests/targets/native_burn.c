/* SPDX-License-Identifier: Apache-2.0
 *
 * Two native functions of one thread burn CPU 70:30. Usage: native_burn [SECONDS [wait]]
 * Speaks as handshake.py says. Answer: {"hot_a_ns", "hot_b_ns"}, by the thread's CPU clock.
 * Build with frame pointers: -O1 -g -fno-omit-frame-pointer.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The clock is a system call: look at it every few microseconds, so that the time is spent here and not there. */
__attribute__((noinline, noclone)) static void hot_a(uint64_t until_ns) {
    while (cpu_ns() < until_ns)
        for (uint64_t i = 0; i < 20000; i++)
            sink += i * i;
    __asm__ volatile("" ::: "memory"); /* no tail call: the frame stays */
}

__attribute__((noinline, noclone)) static void hot_b(uint64_t until_ns) {
    while (cpu_ns() < until_ns)
        for (uint64_t i = 0; i < 20000; i++)
            sink += i ^ sink;
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    double duration_s = argc > 1 ? atof(argv[1]) : 3.0;
    uint64_t a_due_ns = 0, b_due_ns = 0, a_ns = 0, b_ns = 0;

    printf("ready {\"pid\": %d, \"tid\": %d}\n", (int)getpid(), (int)getpid());
    fflush(stdout);
    if (argc > 2 && strcmp(argv[2], "wait") == 0)
        (void)getchar();

    uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(duration_s * 1e9);
    uint64_t now_ns = cpu_ns();
    srand(71);
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        uint64_t slice_ns = 500000 + (uint64_t)(rand() % 1000000); /* varies: no sampling rate beats with it */
        uint64_t start_ns = now_ns;
        a_due_ns += 7 * slice_ns;
        b_due_ns += 3 * slice_ns;

        hot_a(start_ns + a_due_ns - a_ns);
        now_ns = cpu_ns();
        a_ns += now_ns - start_ns;

        start_ns = now_ns;
        hot_b(start_ns + b_due_ns - b_ns);
        now_ns = cpu_ns();
        b_ns += now_ns - start_ns;
    }
    printf("{\"hot_a_ns\": %llu, \"hot_b_ns\": %llu}\n", (unsigned long long)a_ns, (unsigned long long)b_ns);
    return 0;
}
