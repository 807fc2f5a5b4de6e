/* build.c: tests/kdtree/kdtree.c as a function of fault_kdtree. */
#include "fault/kdtree/kdtree.h"

#define main build_main
#include "../../kdtree/kdtree.c"
