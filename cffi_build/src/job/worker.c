/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "worker.h"

#include <signal.h>
#include <stddef.h>

int pln_worker_start(pthread_t *thread, void *(*run)(void *)) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
