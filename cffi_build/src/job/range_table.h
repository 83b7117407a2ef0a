/* SPDX-License-Identifier: Apache-2.0
 *
 * Open ranges that any thread may end, by an id of ours (NVTX's start and end) or a key of the job's (ITT's overlapped
 * tasks, regions and frames). An end without its begin, or a second one, does nothing.
 */
#ifndef PLN_RANGE_TABLE_H
#define PLN_RANGE_TABLE_H

#include "annotation.h"

struct pln_range_key {
    uint64_t words[4];
};

/* Returns an id that no other range of the process gets, 0 where it found no room (the range is counted as lost). */
uint64_t pln_table_begin(const struct pln_annotation *annotation);
void pln_table_end(uint64_t id);

/* The same for a key; of several open ranges with one key an end takes any. */
void pln_table_begin_key(const struct pln_range_key *key, const struct pln_annotation *annotation);
void pln_table_end_key(const struct pln_range_key *key);
bool pln_table_has_key(const struct pln_range_key *key);

#endif
