/* kdtree.cpp: a program with a k-d tree as C++. */
#include "kdtree.c"
