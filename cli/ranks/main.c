/* main.c: the program `warpheap-ranks`: `warpheap bench --ranks`, which ends up here. A program of
 * its own, since it alone needs MPI. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "bench/ranks/ranks.h"
#include "cli/cli.h"
#include "warpheap/graph.h"

#define MOST_ROWS ((uint64_t)1 << 30) /* of a table that one device can join, with its result */

enum {
    OPT_ENGINE = 256,
    OPT_JSON,
    OPT_REPS,
    OPT_SEED,
    OPT_BLOCKS,
    OPT_BYTES,
    OPT_SECONDS,
    OPT_ASKS
};

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0,
     "auto (default: GPUs, or else sim), sim, or cuda: each rank the GPU of its number in its "
     "machine",
     1},
    {"engine", OPT_ENGINE, "NAME", 0,
     "what data goes by: nccl (default where each rank has a GPU of its own) or mpi", 1},
    {"case", 'c', "LIST", 0, "cases; default: all", 1},
    {"sizes", 's', "LIST", 0, "arcs of graphs and batches, instead of each case's own", 2},
    {"rows", 'r', "LIST", 0, "rows of each table of join and group", 2},
    {"blocks", OPT_BLOCKS, "N", 0, "blocks of peers", 2},
    {"bytes", OPT_BYTES, "N", 0, "the most that a rank sends in comm, at least 1024", 2},
    {"heap", 'H', "BYTES", 0, "size of each rank's heap", 2},
    {"reps", OPT_REPS, "N", 0, "repetitions, 10 on a GPU and 2 on the simulated device", 2},
    {"seed", OPT_SEED, "N", 0, "of graphs, tables and the simulated device", 2},
    {"seconds", OPT_SECONDS, "N", 0,
     "how long ranks wait for one that works alone, or has ended; default: 600, before the work 60",
     2},
    {"asks", OPT_ASKS, "N", 0,
     "how often a wait for other ranks asks before it sleeps; default: 200. 20000, say, where each "
     "rank has a core of its own",
     2},
    {"json", OPT_JSON, "FILE", 0,
     "write the results to FILE: the header of the run, then its rows, one JSON object a line", 3},
    {0},
};

typedef struct request {
    whi_ranks_options ranks;
    cli_names cases;
    cli_numbers sizes, rows;
    char complaint[256]; /* why they cannot be run; "" */
} request;

/* Of all ranks one says it: whi_ranks_run. */
#define COMPLAIN(r, ...) ((void)snprintf((r)->complaint, sizeof(r)->complaint, __VA_ARGS__), EINVAL)

static error_t set_number(request *r, const char *option, const char *text, uint64_t *value) {
    if (!cli_parse_number(text, value) || *value == 0) {
        return COMPLAIN(r, "--%s: '%s' is not a number above 0 (K, M and G are understood)", option,
                        text);
    }
    return 0;
}

static error_t add_cases(request *r, const char *text) {
    if (!cli_add_names(&r->cases, text)) {
        return COMPLAIN(r, "--case: '%s' has an empty entry", text);
    }
    for (size_t i = 0; i < r->cases.n; i++) {
        char known[256] = "";
        size_t k = 0;
        while (whi_ranks_case_name(k) != NULL &&
               strcmp(whi_ranks_case_name(k), r->cases.v[i]) != 0) {
            const size_t used = strlen(known);
            (void)snprintf(known + used, sizeof known - used, "%s%s", k != 0 ? ", " : "",
                           whi_ranks_case_name(k));
            k++;
        }
        if (whi_ranks_case_name(k) == NULL) {
            return COMPLAIN(r, "unknown case '%s'; known: %s", r->cases.v[i], known);
        }
    }
    return 0;
}

static error_t add_numbers(request *r, cli_numbers *list, const char *option, const char *text,
                           uint64_t most) {
    if (!cli_add_numbers(list, text)) {
        return COMPLAIN(r, "--%s: '%s' is not a number above 0 (K, M and G are understood)", option,
                        list->bad);
    }
    for (size_t i = 0; i < list->n; i++) {
        if (list->v[i] > most) {
            return COMPLAIN(r, "--%s: %llu is not in 1..%llu", option,
                            (unsigned long long)list->v[i], (unsigned long long)most);
        }
    }
    return 0;
}

static error_t set_engine(request *r, const char *name) {
    if (strcmp(name, "mpi") != 0 && strcmp(name, "nccl") != 0) {
        return COMPLAIN(r, "--engine: unknown '%s'; known: mpi, nccl", name);
    }
    r->ranks.engine = name;
    return 0;
}

static error_t set_device(request *r, const char *name) {
    if (strcmp(name, "auto") != 0 && strcmp(name, "sim") != 0 && strcmp(name, "cuda") != 0) {
        return COMPLAIN(r, "unknown device '%s'; known: auto, sim, cuda", name);
    }
    r->ranks.device = name;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    uint64_t v = 0;
    error_t e = 0;
    switch (key) {
    case 'd':
        return set_device(r, arg);
    case OPT_ENGINE:
        return set_engine(r, arg);
    case 'c':
        return add_cases(r, arg);
    case 's':
        return add_numbers(r, &r->sizes, "sizes", arg, WH_GRAPH_MOST_ARCS);
    case 'r':
        return add_numbers(r, &r->rows, "rows", arg, MOST_ROWS);
    case OPT_BLOCKS:
        e = set_number(r, "blocks", arg, &r->ranks.blocks);
        return e == 0 && r->ranks.blocks > UINT32_MAX
                   ? COMPLAIN(r, "--blocks: '%s' is not in 1..%u", arg, UINT32_MAX)
                   : e;
    case OPT_BYTES:
        e = set_number(r, "bytes", arg, &r->ranks.most_bytes);
        return e == 0 && r->ranks.most_bytes < WHI_RANKS_LEAST_BYTES
                   ? COMPLAIN(r, "--bytes: '%s' is less than %u", arg, WHI_RANKS_LEAST_BYTES)
                   : e;
    case 'H':
        return set_number(r, "heap", arg, &r->ranks.heap_bytes);
    case OPT_REPS:
        if (!cli_parse_number(arg, &v) || v == 0 || v > WHI_RANKS_MOST_REPS) {
            return COMPLAIN(r, "--reps: '%s' is not a number in 1..%u", arg, WHI_RANKS_MOST_REPS);
        }
        r->ranks.reps = (uint32_t)v;
        return 0;
    case OPT_SEED:
        if (!cli_parse_number(arg, &v) || v > INT64_MAX) { /* JSON has signed numbers */
            return COMPLAIN(r, "--seed: '%s' is not a number in 0..2^63-1", arg);
        }
        r->ranks.seed = v;
        return 0;
    case OPT_SECONDS:
        if (!cli_parse_decimal(arg, &r->ranks.seconds) || !(r->ranks.seconds > 0)) {
            return COMPLAIN(r, "--seconds: '%s' is not a number of seconds above 0", arg);
        }
        return 0;
    case OPT_ASKS:
        return set_number(r, "asks", arg, &r->ranks.asks);
    case OPT_JSON:
        r->ranks.json = arg;
        return 0;
    case ARGP_KEY_ARG:
        return COMPLAIN(r, "bench --ranks takes no argument '%s'", arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* argp appends this to --help. */
static char *help_filter(int key, const char *text, void *input) {
    enum { ROOM = 4096 };
    (void)input;
    char *s = key == ARGP_KEY_HELP_POST_DOC ? malloc(ROOM) : NULL;
    if (s == NULL) {
        return (char *)text;
    }
    size_t used = (size_t)snprintf(s, ROOM, "Cases:\n");
    for (size_t i = 0; whi_ranks_case_name(i) != NULL && used < ROOM - 512; i++) {
        used += (size_t)snprintf(s + used, ROOM - used, "  %-12s %s\n", whi_ranks_case_name(i),
                                 whi_ranks_case_text(i));
    }
    (void)snprintf(s + used, ROOM - used,
                   "\nLists are separated by commas; sizes accept K, M and G. Exit status: 0, 1 "
                   "if a result was wrong or something failed, 2 if the request cannot be run.\n");
    return s;
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measures work on several ranks: mpirun -n 2 warpheap bench --ranks. "
    "docs/SEVERAL_GPUS.md describes it.\v.",
    NULL,
    &help_filter,
    NULL};

int main(int argc, char **argv) {
    request r;
    memset(&r, 0, sizeof r);
    argp_err_exit_status = CLI_USAGE;
    argv[0] = (char *)"warpheap bench --ranks";
    const error_t e = argp_parse(&argp, argc, argv, 0, NULL, &r);
    if (e != 0 && r.complaint[0] == '\0') {
        (void)snprintf(r.complaint, sizeof r.complaint, "%s", strerror(e));
    }
    r.ranks.cases = r.cases.v;
    r.ranks.n_cases = r.cases.n;
    r.ranks.sizes = r.sizes.v;
    r.ranks.n_sizes = r.sizes.n;
    r.ranks.rows = r.rows.v;
    r.ranks.n_rows = r.rows.n;
    const int status = whi_ranks_run(&r.ranks, r.complaint);
    cli_free_names(&r.cases);
    cli_free_numbers(&r.sizes);
    cli_free_numbers(&r.rows);
    return status;
}
