/* tessera2_left.c: the tests of tessera_left.c for tessera2. */
#define WH_ALLOCATOR tessera2

#include "unit/tessera_left.c"
