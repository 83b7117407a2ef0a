#include "nesting.h"

#include <stdbool.h>
#include <string.h>

/* The stack of open intervals is the chain of parents itself, from the row before: what has been stepped over once is
 * in no later chain, so each row is stepped over at most once. */
int pln_nest(const int64_t *start, const int64_t *end, const uint64_t *group, const int32_t *order, size_t count,
             int32_t *parents) {
    int32_t before = -1;
    for (size_t place = 0; place < count; place++) {
        int32_t row = order ? order[place] : (int32_t)place;
        int32_t candidate = before;
        if (before >= 0 && group[row] != group[before])
            candidate = -1;
        bool is_later = before < 0 || group[row] > group[before] ||
                        (group[row] == group[before] &&
                         (start[row] > start[before] || (start[row] == start[before] && end[row] <= end[before])));
        if (!is_later)
            return 0;
        while (candidate >= 0 && !(start[row] < end[candidate] && end[row] <= end[candidate]))
            candidate = parents[candidate];
        parents[row] = candidate;
        before = row;
    }
    return 1;
}

/* An ancestor that ends before a row does is passed together with those that end before the ancestor: where tasks always
 * overlap a row has as many ancestors as rows came before it. */
int pln_nest_below(const int64_t *start, const int64_t *end, const int32_t *parents, const uint8_t *usable,
                   const int32_t *order, size_t count, int32_t *outliving, int32_t *nested) {
    memset(nested, 0xfe, count * sizeof *nested); /* -2 and less: not known yet */
    for (size_t place = 0; place < count; place++) {
        int32_t row = order ? order[place] : (int32_t)place, candidate = parents[row];
        if (candidate >= (int32_t)count || (candidate >= 0 && nested[candidate] < -1))
            return 0;
        while (candidate >= 0 && end[candidate] < end[row])
            candidate = outliving[candidate];
        outliving[row] = candidate;
        while (candidate >= 0 && !(usable[candidate] && start[row] < end[candidate] && end[row] <= end[candidate]))
            candidate = end[candidate] < end[row] ? outliving[candidate] : parents[candidate];
        nested[row] = usable[row] && candidate >= 0 ? candidate : -1;
    }
    return 1;
}

int pln_depths(const int32_t *parents, size_t count, int32_t *depth) {
    memset(depth, 0xff, count * sizeof *depth); /* -1: not known yet */
    for (size_t first = 0; first < count; first++) {
        int32_t row = (int32_t)first, steps = 0;
        while (row >= 0 && depth[row] < 0) {
            row = parents[row];
            if (++steps > (int32_t)count || row >= (int32_t)count)
                return 0;
        }
        int32_t above = row < 0 ? -1 : depth[row];
        for (row = (int32_t)first; steps; steps--) {
            depth[row] = above + steps;
            row = parents[row];
        }
    }
    return 1;
}

int pln_add_at(const int32_t *rows, const double *values, size_t count, double *sums, size_t size) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i] < 0)
            continue;
        if ((size_t)rows[i] >= size)
            return 0;
        sums[rows[i]] += values[i];
    }
    return 1;
}
