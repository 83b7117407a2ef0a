/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of CUDA's functions, by the numbers that CUPTI gives them.
 */
#ifndef PLN_CUPTI_FUNCTIONS_H
#define PLN_CUPTI_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct cupti_function {
    uint32_t name; /* string id: "cudaLaunchKernel", also where it is cudaLaunchKernel_v7000_ptsz */
    bool launches; /* it gives a device work */
};

/* function: its name as CUPTI tells it, or NULL. Takes a lock for a name that is new, and never again. */
struct cupti_function cupti_function(uint32_t domain, uint32_t id, const char *function);

/* Switches the callbacks of a domain off that are for functions which only ask, or set something of their thread. */
void cupti_leave_quiet_out(void *subscriber, uint32_t domain);

/* The string id of "error 2". */
uint32_t cupti_error_id(int32_t error);

#endif
