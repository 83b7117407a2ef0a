/* Ranges in the program and in a signal handler that interrupts it anywhere; prints how many were tried. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "range.h"

static uint32_t name;
static volatile unsigned long handled;
static volatile int done;

static void make_range(void) {
    struct pln_token token;
    pln_begin(&token, name, 0, PLN_SOURCE_C);
    pln_end(&token);
}

static void on_signal(int number) {
    (void)number;
    handled++;
    make_range();
}

static void *send_signals(void *target) {
    while (!done)
        pthread_kill(*(pthread_t *)target, SIGUSR1);
    return NULL;
}

int main(int count, char **words) {
    unsigned long signals = strtoul(count > 1 ? words[1] : "1", NULL, 10);
    pthread_t self = pthread_self(), sender;
    unsigned long made = 0;
    name = pln_intern("storm", 5);
    make_range(); /* takes the ring before the storm */
    made++;
    signal(SIGUSR1, on_signal);
    if (pthread_create(&sender, NULL, send_signals, &self) != 0)
        return 1;
    for (; handled < signals; made++)
        make_range();
    done = 1;
    pthread_join(sender, NULL);
    printf("%lu\n", made + handled);
    return 0;
}
