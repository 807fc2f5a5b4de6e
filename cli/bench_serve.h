/* bench_serve.h: `warpheap bench` that is asked line by line, as the child of a suite. */
#ifndef WHI_CLI_BENCH_SERVE_H
#define WHI_CLI_BENCH_SERVE_H

#include "bench/bench.h"

/* Reads lines of options from standard input. answer runs one, writes its rows to standard output
 * and returns; error has room for one line. Returns the exit status. */
int cli_bench_serve(wh_bench_outcome (*answer)(int argc, char **argv, char *error, size_t size));

#endif
