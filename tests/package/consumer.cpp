/* consumer.cpp: the same text as C++. */
#include "consumer.c"
