/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread of ours in the job.
 */
#ifndef PLN_WORKER_H
#define PLN_WORKER_H

#include <pthread.h>

/* The job's signals are for the job's threads: it blocks them all. Returns 0 or an errno. */
int pln_worker_start(pthread_t *thread, void *(*run)(void *));

#endif
