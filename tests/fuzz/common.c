/* common.c: what the targets share, and how libFuzzer calls them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n); /* libFuzzer's name */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_one(bytes, n);
    return 0;
}

void fuzz_require(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "fuzz: not so: %s\n", what);
        abort();
    }
}

static char last[64];

static void remove_last(void) {
    if (last[0] != '\0') {
        (void)unlink(last);
    }
}

const char *fuzz_file(const uint8_t *bytes, size_t n, const char *ending) {
    if (last[0] == '\0') {
        (void)atexit(remove_last);
    }
    remove_last();
    (void)snprintf(last, sizeof last, "/tmp/wh-fuzz-%ld%s", (long)getpid(), ending);
    const int file = open(last, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(file >= 0 && write(file, bytes, n) == (ssize_t)n, "a file can be written");
    (void)close(file);
    return last;
}
