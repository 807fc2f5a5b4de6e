/* full.c: tests/kdtree/full.c as a function of fault_kdtree. */
#include "fault/kdtree/kdtree.h"

#define main full_main
#include "../../kdtree/full.c"
