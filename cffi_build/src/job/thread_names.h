/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that a job gives to its threads through NVTX and ITT. They outlive sessions, and precede what the kernel calls
 * the thread.
 */
#ifndef PLN_THREAD_NAMES_H
#define PLN_THREAD_NAMES_H

#include <stdint.h>

/* Names the thread with this id from now on, in this session and in later ones. */
void pln_name_thread(uint32_t tid, const char *name);

/* The name that the job gave, NULL for none. */
const char *pln_given_thread_name(uint32_t tid);

/* The thread is gone, and its id may come again. */
void pln_forget_thread_name(uint32_t tid);

#endif
