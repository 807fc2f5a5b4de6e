/* graph.cpp: an example on graphs as C++. */
#include "../../examples/05_graph.c"
