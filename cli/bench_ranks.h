/* bench_ranks.h: `warpheap bench --ranks`. */
#ifndef WHI_CLI_BENCH_RANKS_H
#define WHI_CLI_BENCH_RANKS_H

/* Whether --ranks is among the arguments. */
int cli_bench_has_ranks(int argc, char **argv);

/* Becomes the program warpheap-ranks, which lies beside this one, with the other arguments.
 * Returns the exit status if there is no such program. */
int cli_bench_ranks(int argc, char **argv);

#endif
