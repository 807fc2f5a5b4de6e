/* snapshot_file.c: what `warpheap view` and `warpheap diff` do with a file of a snapshot: read it,
 * compare it with itself, add it up, draw it. What is refused is told in one line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/snapshot.h"
#include "fuzz/fuzz.h"

static int complaints;

/* In place of the program's own, which prints. */
int cli_complain(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fuzz_require(strchr(text, '\n') == NULL && strstr(text, ".json") != NULL,
                 "a complaint is one line, and names the file");
    complaints++;
    return CLI_USAGE;
}

void fuzz_one(const uint8_t *bytes, size_t n) {
    snap s;
    uint64_t n_groups = 0;
    complaints = 0;
    if (snap_read(&s, fuzz_file(bytes, n, ".json")) != 0) {
        fuzz_require(complaints == 1 && s.n_blocks == 0, "one complaint, and nothing stays");
        return;
    }
    fuzz_require(snap_compare(&s, &s) == 0, "a snapshot is one of its own heap");
    snap_group *groups = snap_groups(&s, SNAP_BY_SIZE | SNAP_NEW, &n_groups);
    fuzz_require(groups != NULL && n_groups <= s.n_blocks, "blocks have groups");
    free(groups);
    fuzz_require(snap_page(&s, NULL, "/dev/null") == 0, "there is a page");
    fuzz_require(snap_page(&s, &s, "/dev/null") == 0, "there is a page of what is new");
    fuzz_require(complaints == 0, "nobody complains");
    snap_drop(&s);
}
