/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree that intervals make by lying in each other, and what belongs to its rows, in one pass each and without memory
 * of its own.
 */
#ifndef PILLION_NESTING_H
#define PILLION_NESTING_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Sets parents[row] to the row that directly encloses it, -1 for none: the last one before it in the order, of its group,
 * that has not ended when it starts and does not end before it does. `order` has the rows by (group, start, -end); NULL
 * where they are in that order themselves. Returns 1; 0 where they are not, and then parents mean nothing. */
int pln_nest(const int64_t *start, const int64_t *end, const uint64_t *group, const int32_t *order, size_t count,
             int32_t *parents);

/* Sets nested[row] to the nearest ancestor that holds the row: it is usable, has not ended when the row starts, and does not
 * end before it does; -1 for none. parents[row] began before the row and may have ended since, as of tasks that take turns
 * in a thread. `order` has each parent before its children; NULL where the rows do. outliving is room for count rows.
 * Returns 1; 0 where a parent is no row, or comes later. */
int pln_nest_below(const int64_t *start, const int64_t *end, const int32_t *parents, const uint8_t *usable,
                   const int32_t *order, size_t count, int32_t *outliving, int32_t *nested);

/* Sets depth[row] to the number of ancestors; -1 has none. Returns 1; 0 where a parent is no row or its own ancestor. */
int pln_depths(const int32_t *parents, size_t count, int32_t *depth);

/* Adds values[i] to sums[rows[i]] in the order of i, nothing where the row is negative. Returns 1; 0 where a row is not
 * below `size`, and then the sums are not whole. */
int pln_add_at(const int32_t *rows, const double *values, size_t count, double *sums, size_t size);

#pragma GCC visibility pop

#endif
