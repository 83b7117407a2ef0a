#define _GNU_SOURCE
#include "symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SEGMENTS 64
#define MAX_SECTIONS 4096
#define MAX_SYMBOLS (1u << 24) /* libtorch_cpu.so has 0.4 million, a debug build of chromium 3 million */
#define CHUNK 4096             /* symbols per read */
#define NAME_CHUNK 256         /* bytes of a name in the first read */

struct symbol {
    uint64_t address;
    uint32_t size;
    uint32_t name; /* offset in the table's string section */
};

struct pln_symbols {
    int fd;
    uint64_t names_offset;
    uint64_t names_size;
    Elf64_Phdr segments[MAX_SEGMENTS];
    unsigned segment_count;
    struct symbol *symbols; /* ascending by address */
    size_t count;
};

static bool read_at(int fd, void *into, size_t size, uint64_t offset) {
    return offset <= INT64_MAX && pread(fd, into, size, (off_t)offset) == (ssize_t)size;
}

static int by_address(const void *left, const void *right) {
    const struct symbol *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static bool is_function(const Elf64_Sym *symbol) {
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF && symbol->st_value;
}

static int load_table(struct pln_symbols *file, const Elf64_Shdr *table, const Elf64_Shdr *names) {
    size_t total = table->sh_size / sizeof(Elf64_Sym);
    if (!total || total > MAX_SYMBOLS)
        return ENOEXEC;
    Elf64_Sym *chunk = malloc(CHUNK * sizeof *chunk);
    struct symbol *symbols = malloc(total * sizeof *symbols);
    size_t count = 0;
    for (size_t at = 0; chunk && symbols && at < total; at += CHUNK) {
        size_t n = total - at < CHUNK ? total - at : CHUNK;
        if (!read_at(file->fd, chunk, n * sizeof *chunk, table->sh_offset + at * sizeof *chunk))
            break;
        for (size_t i = 0; i < n; i++) {
            if (!is_function(&chunk[i]))
                continue;
            uint32_t size = chunk[i].st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)chunk[i].st_size;
            symbols[count++] = (struct symbol){chunk[i].st_value, size, chunk[i].st_name};
        }
    }
    free(chunk);
    if (!symbols)
        return ENOMEM;
    qsort(symbols, count, sizeof *symbols, by_address);
    struct symbol *fitted = realloc(symbols, (count ? count : 1) * sizeof *symbols);
    file->symbols = fitted ? fitted : symbols;
    file->count = count;
    file->names_offset = names->sh_offset;
    file->names_size = names->sh_size;
    return 0;
}

/* .symtab where the file has one, since it names static functions too; .dynsym otherwise. */
static int load(struct pln_symbols *file) {
    Elf64_Ehdr header;
    if (!read_at(file->fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum && file->segment_count < MAX_SEGMENTS; i++) {
        Elf64_Phdr *segment = &file->segments[file->segment_count];
        if (!read_at(file->fd, segment, sizeof *segment, header.e_phoff + i * sizeof *segment))
            return ENOEXEC;
        if (segment->p_type == PT_LOAD)
            file->segment_count++;
    }
    if (!header.e_shnum || header.e_shnum > MAX_SECTIONS)
        return ENOEXEC;
    Elf64_Shdr *sections = malloc(header.e_shnum * sizeof *sections);
    if (!sections)
        return ENOMEM;
    int result = ENOEXEC;
    if (read_at(file->fd, sections, header.e_shnum * sizeof *sections, header.e_shoff)) {
        const Elf64_Shdr *best = NULL;
        for (unsigned i = 0; i < header.e_shnum; i++)
            if ((sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && !best)) &&
                sections[i].sh_link < header.e_shnum)
                best = &sections[i];
        if (best)
            result = load_table(file, best, &sections[best->sh_link]);
    }
    free(sections);
    return result;
}

/* What only looks like a regular file is found out before it is opened: opening a device does things, and a link may
 * lead a process of root to any. */
static int open_regular(const char *path, int *error) {
    int handle = open(path, O_PATH | O_CLOEXEC);
    struct stat status;
    if (handle < 0 || fstat(handle, &status)) {
        *error = errno;
        if (handle >= 0)
            close(handle);
        return -1;
    }
    int fd = -1;
    if (S_ISREG(status.st_mode)) {
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: its owner's lease must not stop the agent */
        *error = fd < 0 ? errno : 0;
    } else {
        *error = ENOEXEC;
    }
    close(handle);
    return fd;
}

struct pln_symbols *pln_symbols_open(const char *path, int *error) {
    struct pln_symbols *file = calloc(1, sizeof *file);
    if (!file) {
        *error = ENOMEM;
        return NULL;
    }
    file->fd = open_regular(path, error);
    if (file->fd >= 0)
        *error = load(file);
    if (!*error)
        return file;
    pln_symbols_close(file);
    return NULL;
}

void pln_symbols_close(struct pln_symbols *file) {
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->symbols);
    free(file);
}

size_t pln_symbols_bytes(const struct pln_symbols *file) {
    return sizeof *file + file->count * sizeof *file->symbols;
}

static uint64_t address_of(const struct pln_symbols *file, uint64_t offset) {
    for (unsigned i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz)
            return offset - segment->p_offset + segment->p_vaddr;
    }
    return 0;
}

int64_t pln_symbols_find(const struct pln_symbols *file, uint64_t file_offset) {
    uint64_t address = address_of(file, file_offset);
    size_t low = 0, high = file->count;
    while (low < high) { /* first symbol beyond the address */
        size_t middle = low + (high - low) / 2;
        if (file->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return -1;
    const struct symbol *symbol = &file->symbols[low - 1];
    /* Assembly often states no size; then the symbol reaches to the next one. */
    bool inside = !symbol->size || address - symbol->address < symbol->size;
    return inside ? (int64_t)low - 1 : -1;
}

size_t pln_symbols_name(const struct pln_symbols *file, int64_t symbol, char *name, size_t room) {
    if (symbol < 0 || (uint64_t)symbol >= file->count || room == 0)
        return 0;
    uint64_t start = file->symbols[symbol].name;
    size_t length = 0;
    /* Most names are short, so not all the room is read at once. */
    for (size_t wanted = NAME_CHUNK; length < room - 1 && start + length < file->names_size; wanted = room) {
        uint64_t left = file->names_size - start - length;
        wanted = wanted < room - 1 - length ? wanted : room - 1 - length;
        wanted = wanted < left ? wanted : left;
        ssize_t got = pread(file->fd, name + length, wanted, (off_t)(file->names_offset + start + length));
        if (got <= 0)
            break;
        const char *end = memchr(name + length, 0, (size_t)got);
        if (end)
            return (size_t)(end - name);
        length += (size_t)got;
    }
    name[length] = 0;
    return length;
}
