/* ops.cpp: an example on tables as C++. */
#include "../../examples/07_tables.c"
