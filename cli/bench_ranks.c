/* bench_ranks.c: `warpheap bench --ranks` is another program, as it alone needs MPI: this one runs
 * where there is none. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_ranks.h"
#include "cli/cli.h"

#define PROGRAM "warpheap-ranks"

int cli_bench_has_ranks(int argc, char **argv) {
    int has = 0;
    for (int i = 1; i < argc; i++) {
        has |= strcmp(argv[i], "--ranks") == 0;
    }
    return has;
}

int cli_bench_ranks(int argc, char **argv) {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof PROGRAM);
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int n = 0;
    if (length <= 0 || rest == NULL) {
        free(rest);
        return cli_complain("bench --ranks: cannot tell where this program is");
    }
    path[length] = '\0';
    (void)strcpy(strrchr(path, '/') + 1, PROGRAM);
    for (int i = 0; i < argc; i++) {
        if (i == 0 || strcmp(argv[i], "--ranks") != 0) {
            rest[n++] = argv[i];
        }
    }
    (void)execv(path, rest);
    free(rest);
    return cli_complain("bench --ranks: there is no " PROGRAM
                        " beside this program: a build of the source tree with its tests makes it, "
                        "where MPI is (Debian: libopenmpi-dev openmpi-bin)");
}
