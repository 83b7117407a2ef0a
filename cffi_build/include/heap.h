/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PILLION_HEAP_H
#define PILLION_HEAP_H

#pragma GCC visibility push(default)

/* Gives the free pages of malloc's heap back to the system, wherever they are: after many small objects have gone. */
void pln_heap_trim(void);

#pragma GCC visibility pop

#endif
