#include "heap.h"

#include <stdlib.h> /* says whether this is glibc; other libraries have no such call */

#ifdef __GLIBC__
#include <malloc.h>
#endif

void pln_heap_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
