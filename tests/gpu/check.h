/* check.h: CHECK of the programs here: says which condition does not hold, and counts. */
#ifndef TESTS_GPU_CHECK_H
#define TESTS_GPU_CHECK_H

#include <cstdio>

static int failures;

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                                 \
        }                                                               \
    } while (0)

#endif
