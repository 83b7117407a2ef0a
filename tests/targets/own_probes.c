/* SPDX-License-Identifier: Apache-2.0
 *
 * Fires every probe of the provider pillion (pillion_usdt.h). Usage: own_probes [wait].
 * Speaks as handshake.py says. Answer: how often each one fires. Built with the library's own sources of a job.
 */
#include "process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BATCH 17

static const struct {
    const char *probe;
    uint16_t kind;
    int count;
} SINGLE[] = {
    {"range", PLN_RANGE, 101},   {"mark", PLN_MARK, 103},         {"thread", PLN_THREAD, 107},
    {"notice", PLN_NOTICE, 109}, {"activity", PLN_ACTIVITY, 113},
};
#define BATCHES 7
#define LAUNCHES 127

static void fire_singly(unsigned which) {
    char name[32];
    int length = snprintf(name, sizeof name, "a %s", SINGLE[which].probe);
    for (int i = 0; i < SINGLE[which].count; i++) {
        struct pln_range range = {
            .kind = SINGLE[which].kind,
            .tid = (uint32_t)getpid(),
            .start_ns = 1000 + (uint64_t)i,
            .end_ns = 2000 + (uint64_t)i,
            .name = pln_intern(name, (size_t)length),
        };
        struct pln_activity activity = {
            .kind = SINGLE[which].kind,
            .start_ns = 1000 + (uint64_t)i,
            .end_ns = 2000 + (uint64_t)i,
            .name = range.name,
            .value = (uint64_t)i,
        };
        pln_probe(SINGLE[which].kind == PLN_ACTIVITY ? (const void *)&activity : &range);
    }
}

int main(int argc, char **argv) {
    printf("ready {\"pid\": %d}\n", (int)getpid());
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        (void)getchar();
    pln_setup();
    for (unsigned which = 0; which < sizeof SINGLE / sizeof *SINGLE; which++)
        fire_singly(which);
    struct pln_activity batch[BATCH];
    for (int i = 0; i < BATCH; i++)
        batch[i] = (struct pln_activity){.kind = PLN_ACTIVITY, .name = pln_intern("a batch", 7), .value = (uint64_t)i};
    for (int i = 0; i < BATCHES; i++)
        pln_probe_batch(batch, BATCH);
    for (uint32_t i = 1; i <= LAUNCHES; i++)
        pln_probe_launch(i, pln_intern("a launch", 8));
    printf("{\"range\": 101, \"mark\": 103, \"thread\": 107, \"notice\": 109, \"activity\": %d, \"activities\": %d, "
           "\"launch\": %d}\n",
           113 + BATCHES * BATCH, BATCHES, LAUNCHES);
    return 0;
}
