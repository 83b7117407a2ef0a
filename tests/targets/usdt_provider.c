/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with probes, as others write them: each with a semaphore, "twice" at two places, "work" and "inner" as the
 * two ends of a range. Build with -shared -fPIC.
 */
#define SEMAPHORE(probe) unsigned short provider_##probe##_semaphore __attribute__((section(".probes")))

SEMAPHORE(work__start);
SEMAPHORE(work__done);
SEMAPHORE(inner_begin);
SEMAPHORE(inner_end);
SEMAPHORE(step);
SEMAPHORE(twice);

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* How many tracers hold the semaphore of "step" up. */
int provider_traced(void) {
    return *(volatile unsigned short *)&provider_step_semaphore;
}

__attribute__((noinline)) void provider_step(long number) {
    STAP_PROBE2(provider, step, number, -number);
}

__attribute__((noinline)) void provider_twice(void) {
    STAP_PROBE(provider, twice);
    STAP_PROBE(provider, twice);
}

__attribute__((noinline)) void provider_work_start(int number) {
    STAP_PROBE1(provider, work__start, number);
}

__attribute__((noinline)) void provider_work_done(int result) {
    STAP_PROBE1(provider, work__done, result);
}

__attribute__((noinline)) void provider_inner_begin(void) {
    STAP_PROBE(provider, inner_begin);
}

__attribute__((noinline)) void provider_inner_end(void) {
    STAP_PROBE(provider, inner_end);
}
