/* papers.c: the tests of sets.c for the other classes of the papers, and with all allocators. */
#define KINDS "ouro", "aim"
#define OTHER_ALLOCATORS 1

#include "sets.c"
