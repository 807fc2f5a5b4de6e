/* arena.cpp: examples/09_arena.c as C++. */
#include "../../examples/09_arena.c"
