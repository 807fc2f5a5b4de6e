/* fuzz.h: what the targets for libFuzzer share: each is a file with fuzz_one, which must take any
 * bytes. As a program of libFuzzer it gets new ones all the time; as a test (replay.c) the corpus.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

void fuzz_one(const uint8_t *bytes, size_t n);

/* Ends the program: something is not as it must be. */
void fuzz_require(int good, const char *what);

/* A file with these bytes, by a path that is its own until the next call; its name ends so. */
const char *fuzz_file(const uint8_t *bytes, size_t n, const char *ending);

#endif
