/* allocators.c: the tests of sets.c for the classes of the papers, with the allocators that serve
 * the sizes of their adjacencies, beside the default one. */
#define KINDS "lattice", "faim", "faim-update", "ouro", "aim"
#define OTHER_ALLOCATORS 1

#include "sets.c"
