/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes of an operator's inputs, as torch itself spells them out for its profiler.
 */
#ifndef PLN_TORCH_SHAPES_H
#define PLN_TORCH_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this torch has what it takes. */
bool pln_torch_shapes_resolve(void *library);

/* The id of a JSON text, "[[2, 3], []]": one list for each input, empty where it is no tensor; 0 for none. Only for a
 * function whose callback asked for its inputs. */
uint32_t pln_torch_shapes(const void *function);

#endif
