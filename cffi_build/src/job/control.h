/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that have to be switched on and off: torch's callbacks, CUPTI. They run while somebody records, and one
 * thread of the process looks after them. It sleeps while nothing changes.
 */
#ifndef PLN_CONTROL_H
#define PLN_CONTROL_H

#include <stdbool.h>

/* What a source does when a session begins and ends. No two of these calls run at once, on whatever thread. */
struct pln_control {
    void (*start)(void);
    void (*tick)(void);   /* every PLN_TICK_NS while it runs, or when woken; NULL: nothing to do meanwhile */
    void (*stop)(void);   /* hands over all that it has held back */
    void (*forget)(void); /* in a fork child of a process in which it ran, instead of stop; NULL: nothing to forget */
    bool (*holds_back)(void); /* the end of a session waits for stop, as far as it does just now; NULL: never */
    bool running;
    struct pln_control *next;
};

#define PLN_TICK_NS 50000000u

/* From now on, for good; starts it at once if somebody records. control is the caller's, for as long as the process
 * lives. A second time does nothing. */
void pln_control_add(struct pln_control *control);

/* Starts and stops what a change asks for, on the calling thread. */
void pln_control_update(void);

/* Calls change while the source does not run: stops it before and starts it afterwards where somebody records. */
void pln_control_change(struct pln_control *control, void (*change)(void));

/* Has the control thread look again now. */
void pln_control_wake(void);

/* region.c: around a fork, and when a region has been made. */
void pln_control_prepare(void);
void pln_control_parent(void);
void pln_control_forget(void);
void pln_control_begin(void);

#endif
