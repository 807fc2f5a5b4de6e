/* papers.c: the tests of sets.c for the other classes of the papers. */
#define KINDS "faim-update", "ouro", "aim"
#define OTHER_ALLOCATORS 0

#include "sets.c"
