/* checkpoint.cpp: a program with a heap in a file as C++. */
#include "checkpoint.c"
