/* many_threads TOTAL ALIVE: TOTAL threads make one range each, ALIVE of them at a time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "range.h"

static pthread_barrier_t together;

static void *make_range(void *unused) {
    struct pln_token token;
    pln_begin(&token, pln_intern("thread", 6), 0, PLN_SOURCE_C);
    pln_end(&token);
    pthread_barrier_wait(&together);
    return unused;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    unsigned total = (unsigned)atoi(words[1]), alive = (unsigned)atoi(words[2]);
    pthread_t *threads = calloc(alive, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_barrier_init(&together, NULL, alive);
    for (unsigned done = 0; done < total; done += alive) {
        for (unsigned i = 0; i < alive; i++)
            if (pthread_create(&threads[i], &attributes, make_range, NULL) != 0)
                return 1;
        for (unsigned i = 0; i < alive; i++)
            pthread_join(threads[i], NULL);
    }
    free(threads);
    return 0;
}
