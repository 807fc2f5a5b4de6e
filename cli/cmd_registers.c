/* cmd_registers.c: `warpheap registers`: options to wh_bench_registers. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/cli.h"

enum { OPT_JSON = 256, OPT_COMPILE_COST };

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0, "cuda (default: the first GPU) or cuda:N", 1},
    {"alloc", 'a', "LIST", 0, "allocators; default: all", 1},
    {"json", OPT_JSON, "FILE", 0,
     "write the figures to FILE: the header of the run, then "
     "its rows, one JSON object a line",
     2},
    {"compile-cost", OPT_COMPILE_COST, "FILE", 0,
     "show instead, without a GPU, what a plain kernel costs: a file that "
     "tools/compile_cost.py --json made",
     2},
    {0},
};

typedef struct request {
    wh_bench_options bench;
    cli_names allocs;
    const char *compile_cost;
    int status; /* not 0: a complaint was made */
} request;

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    switch (key) {
    case 'd':
        r->bench.device = arg;
        return 0;
    case 'a':
        if (!cli_add_names(&r->allocs, arg)) {
            r->status = cli_complain("--alloc: '%s' has an empty entry", arg);
            return EINVAL;
        }
        return 0;
    case OPT_JSON:
        r->bench.json = arg;
        return 0;
    case OPT_COMPILE_COST:
        r->compile_cost = arg;
        return 0;
    case ARGP_KEY_ARG:
        r->status = cli_complain("registers takes no argument '%s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_registers(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Shows what a malloc and a free cost a kernel in registers and local memory (stack "
        "frame and spills), for each allocator.",
        NULL,
        NULL,
        NULL};
    char error[1024];
    request r;
    memset(&r, 0, sizeof r);
    argp_err_exit_status = CLI_USAGE;
    int status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &r) == 0) {
        r.bench.allocs = (const char *const *)r.allocs.v;
        r.bench.n_allocs = r.allocs.n;
        r.bench.table = stdout;
        const wh_bench_outcome outcome =
            r.compile_cost != NULL
                ? wh_bench_compile_cost(r.compile_cost, stdout, error, sizeof error)
                : wh_bench_registers(&r.bench, error, sizeof error);
        if (outcome != WH_BENCH_OK) {
            (void)cli_complain("%s", error);
        }
        status = (int)outcome;
    }
    cli_free_names(&r.allocs);
    return status;
}
