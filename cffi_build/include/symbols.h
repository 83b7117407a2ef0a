/* SPDX-License-Identifier: Apache-2.0
 *
 * Function symbols of an ELF file, for the agent: which function holds this place of the file?
 *
 * The file may belong to anybody and may change while it is read, so nothing of it is mapped: a truncated mapping would
 * kill the reader. Symbols are kept as 16 bytes each, names are read when asked for.
 */
#ifndef PILLION_SYMBOLS_H
#define PILLION_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* Returns NULL and sets *error (an errno; ENOEXEC: not a 64-bit little-endian ELF file). */
struct pln_symbols *pln_symbols_open(const char *path, int *error);
void pln_symbols_close(struct pln_symbols *symbols);

size_t pln_symbols_bytes(const struct pln_symbols *symbols);

/* The number of the function at file_offset, -1 where none is known. */
int64_t pln_symbols_find(const struct pln_symbols *symbols, uint64_t file_offset);

/* Its name as the file has it, cut at room - 1 bytes; returns the length, 0 where it cannot be read. */
size_t pln_symbols_name(const struct pln_symbols *symbols, int64_t symbol, char *name, size_t room);

/* The line of an instruction (an index of 2-byte code units) by a CPython 3.11+ location table
 * (Objects/locations.md); first_line where the table says nothing. Any bytes will do for a table. */
int32_t pln_python_line(const uint8_t *table, size_t size, int32_t first_line, uint32_t instruction);

#pragma GCC visibility pop

#endif
