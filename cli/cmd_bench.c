/* cmd_bench.c: `warpheap bench`: options to wh_bench_options, or to a suite_request, and --list. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/bench_ranks.h"
#include "cli/bench_serve.h"
#include "cli/cli.h"
#include "cli/suite.h"
#include "warpheap/heap.h"

enum {
    OPT_LIST = 256,
    OPT_CHECK,
    OPT_POLICY,
    OPT_JSON,
    OPT_REPS,
    OPT_LIMIT,
    OPT_SEED,
    OPT_OPTION,
    OPT_ROUNDS,
    OPT_PLAIN,
    OPT_SUITE,
    OPT_RESUME,
    OPT_PART,
    OPT_CELL_LIMIT,
    OPT_SERVE,
    OPT_ABOUT,
    OPT_COMPACT,
    OPT_RANKS
};

static const struct argp_option options[] = {
    {"device", 'd', "DEVICE", 0, "auto (default: the first GPU, or else sim), sim, cuda or cuda:N",
     1},
    {"alloc", 'a', "LIST", 0, "allocators; default: all that run on the device", 1},
    {"case", 'c', "LIST", 0, "cases; default: all", 1},
    {"sizes", 's', "LIST", 0, "request sizes in bytes, instead of each case's own", 2},
    {"threads", 't', "LIST", 0,
     "thread counts (warp: warps; utilization: batch), instead of each case's own; cut to what "
     "60 % of the heap holds",
     2},
    {"heap", 'H', "BYTES", 0, "heap size", 2},
    {"option", OPT_OPTION, "FAMILY.NAME=N", 0,
     "an option of the heaps of an allocator family, such as tessera.track_peak=1 (repeatable); "
     "`warpheap info` lists them",
     2},
    {"reps", OPT_REPS, "N", 0, "repetitions, 10 on a GPU and at most 3 on the simulated device", 2},
    {"rounds", OPT_ROUNDS, "N", 0,
     "rounds of repeat, server, slabhash, graph-memory and graph-expand, steps of cells, instead "
     "of each "
     "case's own",
     2},
    {"plain", OPT_PLAIN, NULL, 0,
     "time kernels without launch bounds, as a user's __global__ function is compiled who says "
     "nothing of them; on the simulated device they are the same",
     2},
    {"compact", OPT_COMPACT, NULL, 0,
     "drift, scenarios: call wh_heap_compact between launches, where the allocator has it", 2},
    {"limit", OPT_LIMIT, "SECONDS", 0,
     "repetitions of one thing end after so long, and what an allocator has not begun in a case "
     "after 4 times as long (10: drift, walk, crossover, scenarios, server, fill-log, ops-*) is "
     "left out, and reported; "
     "default: 0.5 on a GPU, none on the simulated device",
     2},
    {"seed", OPT_SEED, "N", 0, "of request sizes, churn, graphs and the simulated device", 2},
    {"kinds", 'k', "LIST", 0,
     "classes of graphs in the cases graph-*; default: all, or where all allocators are measured "
     "all with the default one and lattice with the others",
     3},
    {"input", 'i', "FILE", 0,
     "a graph file for the cases graph and graph-*, or a mesh (.obj, .ply, .off, .stl) for kdtree "
     "and kdtree-tight; repeatable",
     3},
    {"check", OPT_CHECK, "WHEN", 0,
     "write and check block contents in the last repetition (default) or in every one; that "
     "blocks are disjoint is verified in all, with 'ends' in the last one, "
     "and timed churn writes nothing to blocks",
     3},
    {"policy", OPT_POLICY, "NAME", 0, "scheduling policy of the simulated device", 3},
    {"json", OPT_JSON, "FILE", 0,
     "write the results to FILE: the header of the run, then "
     "its rows, one JSON object a line",
     4},
    {"list", OPT_LIST, "WHAT", OPTION_ARG_OPTIONAL,
     "list allocs (default), cases or suites, one a line; with --suite its cells", 4},
    {"suite", OPT_SUITE, "NAME", 0,
     "run a suite, each cell of it (a case with its parameters) in a child process; takes "
     "--device, "
     "--alloc, --case, --seed, --json and the following",
     5},
    {"resume", OPT_RESUME, "FILE", 0, "as --json, but keep what FILE has, and run the rest", 5},
    {"part", OPT_PART, "K/N", 0, "run the K-th of N parts of the suite, which take about as long",
     5},
    {"cell-limit", OPT_CELL_LIMIT, "SECONDS", 0,
     "kill what has not ended after so long, and go on with the next cell", 5},
    {"ranks", OPT_RANKS, NULL, 0,
     "measure work on several GPUs, a process each: mpirun -n 2 warpheap bench --ranks; with "
     "--help its own options",
     6},
    {"serve", OPT_SERVE, NULL, OPTION_HIDDEN, "", 6},
    {"about", OPT_ABOUT, NULL, OPTION_HIDDEN, "", 6},
    {0},
};

/* What the command line asked for. */
typedef struct request {
    wh_bench_options bench;
    cli_names allocs, cases, kinds, inputs;
    cli_names options_set; /* of --option */
    cli_numbers sizes, threads;
    wh_any_options *options;
    size_t n_options;
    const char *list; /* "allocs", "cases", "suites", "" what there is by default; NULL: run */
    const char *own;  /* --policy, --sizes or the like, the last of them: no suite takes it */
    suite_request suite;
    const char *for_suites; /* --resume or the like: what needs one */
    int serve, about;
    int status; /* not 0: a complaint was made */
} request;

static int complain_number(request *r, const char *option, const char *text) {
    r->status = cli_complain("--%s: '%s' is not a number above 0 (K, M and G are understood)",
                             option, text);
    return EINVAL;
}

/* A number of repetitions. */
static int set_count(request *r, const char *option, const char *text, uint32_t *count) {
    uint64_t v = 0;
    if (!cli_parse_number(text, &v) || v == 0 || v > WH_BENCH_MAX_REPS) {
        r->status =
            cli_complain("--%s: '%s' is not a number in 1..%u", option, text, WH_BENCH_MAX_REPS);
        return EINVAL;
    }
    *count = (uint32_t)v;
    return 0;
}

static int set_list(request *r, const char *what) {
    if (what[0] != '\0' && strcmp(what, "allocs") != 0 && strcmp(what, "cases") != 0 &&
        strcmp(what, "suites") != 0) {
        r->status = cli_complain("--list: unknown '%s'; known: allocs, cases, suites", what);
        return EINVAL;
    }
    r->list = what;
    return 0;
}

static int set_policy(request *r, const char *name) {
    static const char *const names[] = {
#define NAME(ident, text) text,
        WH_SIM_POLICY_LIST(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            r->bench.policy = (wh_sim_policy)i;
            return 0;
        }
    }
    r->status = cli_complain("--policy: unknown '%s'; known: round-robin, random, sticky, pct, "
                             "stall",
                             name);
    return EINVAL;
}

static int set_check(request *r, const char *when) {
    static const struct {
        const char *name;
        wh_bench_check check;
    } known[] = {{"last", WH_BENCH_CHECK_LAST},
                 {"every", WH_BENCH_CHECK_EVERY},
                 {"ends", WH_BENCH_CHECK_ENDS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(when, known[i].name) == 0) {
            r->bench.check = known[i].check;
            return 0;
        }
    }
    r->status = cli_complain("--check: unknown '%s'; known: last, every, ends", when);
    return EINVAL;
}

/* "tessera.track_peak=1". The options of a family are in one struct. */
static int set_option(request *r, const char *text) {
    char name[80];
    const size_t length = strcspn(text, "="), family = strcspn(text, ".");
    uint64_t value = 0;
    if (text[length] == '\0' || length >= sizeof name ||
        !cli_parse_number(text + length + 1, &value)) {
        r->status = cli_complain("--option: '%s' is not <family>.<name>=<number>", text);
        return EINVAL;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    for (size_t k = 0; k < r->options_set.n; k++) {
        if (strcmp(r->options_set.v[k], name) == 0) {
            r->status = cli_complain("--option: '%s' is given twice", name);
            return EINVAL;
        }
    }
    size_t i = 0;
    while (i < r->n_options && (strlen(r->options[i].head.family) != family ||
                                strncmp(r->options[i].head.family, text, family) != 0)) {
        i++;
    }
    if (i == r->n_options) {
        wh_any_options *more = realloc(r->options, (i + 1) * sizeof *more);
        if (more == NULL) {
            return ENOMEM;
        }
        r->options = more;
        memset(&more[i], 0, sizeof *more);
    }
    if (wh_options_set(&r->options[i], name, value) != WH_OK) {
        r->status = cli_complain("--option: %s", wh_last_error_text());
        return EINVAL;
    }
    r->n_options = i == r->n_options ? i + 1 : r->n_options;
    return cli_add_name(&r->options_set, name, length) ? 0 : ENOMEM;
}

static int add_names(request *r, cli_names *list, const char *option, const char *text) {
    if (!cli_add_names(list, text)) {
        r->status = cli_complain("--%s: '%s' has an empty entry", option, text);
        return EINVAL;
    }
    return 0;
}

static int set_suite(request *r, const char *name) {
    r->suite.suite = suite_find(name);
    if (r->suite.suite == NULL) {
        char known[256] = "";
        for (size_t i = 0; wh_bench_suite_at(i) != NULL; i++) {
            const size_t used = strlen(known);
            (void)snprintf(known + used, sizeof known - used, "%s%s", i != 0 ? ", " : "",
                           wh_bench_suite_at(i)->name);
        }
        r->status = cli_complain("--suite: unknown '%s'; known: %s", name, known);
        return EINVAL;
    }
    return 0;
}

/* "2/5". */
static int set_part(request *r, const char *text) {
    const size_t length = strcspn(text, "/");
    char first[16];
    uint64_t part = 0, parts = 0;
    (void)snprintf(first, sizeof first, "%.*s", (int)(length < 15 ? length : 15), text);
    if (text[length] == '\0' || !cli_parse_number(first, &part) ||
        !cli_parse_number(text + length + 1, &parts) || part == 0 || part > parts || parts > 1000) {
        r->status = cli_complain("--part: '%s' is not K/N with K in 1..N", text);
        return EINVAL;
    }
    r->suite.part = (uint32_t)part;
    r->suite.parts = (uint32_t)parts;
    return 0;
}

/* Options that have to do with suites. */
static error_t parse_suite(request *r, int key, char *arg) {
    switch (key) {
    case OPT_SUITE:
        return set_suite(r, arg);
    case OPT_RESUME:
        r->for_suites = "--resume";
        r->suite.resume = 1;
        r->suite.path = arg;
        return 0;
    case OPT_PART:
        r->for_suites = "--part";
        return set_part(r, arg);
    case OPT_CELL_LIMIT:
        r->for_suites = "--cell-limit";
        if (!cli_parse_decimal(arg, &r->suite.limit) || !(r->suite.limit > 0)) {
            r->status = cli_complain("--cell-limit: '%s' is not a number of seconds above 0", arg);
            return EINVAL;
        }
        return 0;
    case OPT_SERVE:
        r->serve = 1;
        return 0;
    case OPT_ABOUT:
        r->about = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Its name if a suite does not take it. */
static const char *own_name(int key) {
    static const int taken[] = {'d', 'a', 'c', OPT_SEED, OPT_JSON, OPT_LIST};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (taken[i] == key) {
            return NULL;
        }
    }
    for (size_t i = 0; options[i].name != NULL; i++) {
        if (options[i].key == key && key != OPT_SUITE && options[i].group < 5) {
            return options[i].name;
        }
    }
    return NULL;
}

static error_t set_limit(request *r, const char *arg) {
    if (!cli_parse_decimal(arg, &r->bench.limit) || !(r->bench.limit > 0)) {
        r->status = cli_complain("--limit: '%s' is not a number of seconds above 0", arg);
        return EINVAL;
    }
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    uint64_t v = 0;
    const char *own = own_name(key);
    r->own = own != NULL ? own : r->own;
    switch (key) {
    case 'd':
        r->bench.device = arg;
        return 0;
    case 'a':
        return add_names(r, &r->allocs, "alloc", arg);
    case 'c':
        return add_names(r, &r->cases, "case", arg);
    case 's':
        return cli_add_numbers(&r->sizes, arg) ? 0 : complain_number(r, "sizes", r->sizes.bad);
    case 't':
        return cli_add_numbers(&r->threads, arg) ? 0
                                                 : complain_number(r, "threads", r->threads.bad);
    case 'H':
        if (!cli_parse_number(arg, &r->bench.heap_bytes) || r->bench.heap_bytes == 0) {
            return complain_number(r, "heap", arg);
        }
        return 0;
    case OPT_REPS:
        return set_count(r, "reps", arg, &r->bench.reps);
    case OPT_ROUNDS:
        return set_count(r, "rounds", arg, &r->bench.rounds);
    case OPT_PLAIN:
        r->bench.plain = 1;
        return 0;
    case OPT_COMPACT:
        r->bench.compact = 1;
        return 0;
    case OPT_LIMIT:
        return set_limit(r, arg);
    case OPT_SEED:
        if (!cli_parse_number(arg, &v) || v > INT64_MAX) { /* JSON has signed numbers */
            r->status = cli_complain("--seed: '%s' is not a number in 0..2^63-1", arg);
            return EINVAL;
        }
        r->bench.seed = v;
        return 0;
    case 'k':
        return add_names(r, &r->kinds, "kinds", arg);
    case 'i':
        return cli_add_name(&r->inputs, arg, strlen(arg)) ? 0 : ENOMEM;
    case OPT_CHECK:
        return set_check(r, arg);
    case OPT_OPTION:
        return set_option(r, arg);
    case OPT_POLICY:
        return set_policy(r, arg);
    case OPT_JSON:
        r->bench.json = arg;
        return 0;
    case OPT_RANKS: /* cli_bench looks for the whole word */
        r->status = cli_complain("--ranks is not to be shortened");
        return EINVAL;
    case OPT_LIST:
        return set_list(r, arg != NULL ? arg : "");
    case ARGP_KEY_ARG:
        if (r->list != NULL) { /* --list cases: an optional value cannot stand apart */
            return set_list(r, arg);
        }
        r->status = cli_complain("bench takes no argument '%s'", arg);
        return EINVAL;
    default:
        return parse_suite(r, key, arg);
    }
}

static void show_list(const char *what, const wh_bench_suite *suite) {
    if (what[0] == '\0' && suite != NULL) {
        suite_list(suite);
    } else if (strcmp(what, "suites") == 0) {
        for (size_t i = 0; wh_bench_suite_at(i) != NULL; i++) {
            (void)puts(wh_bench_suite_at(i)->name);
        }
    } else if (strcmp(what, "cases") == 0) {
        for (size_t i = 0; wh_bench_case_name(i) != NULL; i++) {
            (void)puts(wh_bench_case_name(i));
        }
    } else {
        for (uint32_t i = 0; wh_allocator_at(i) != NULL; i++) {
            (void)puts(wh_allocator_at(i)->name);
        }
    }
}

#define HELP_ROOM 8192

/* argp appends this to --help. */
static char *help_filter(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)text;
    }
    char *s = malloc(HELP_ROOM);
    if (s == NULL) {
        return (char *)text;
    }
    size_t used = (size_t)snprintf(s, HELP_ROOM, "Cases:\n");
    for (size_t i = 0; wh_bench_case_name(i) != NULL && used < HELP_ROOM - 512; i++) {
        used += (size_t)snprintf(s + used, HELP_ROOM - used, "  %-12s %s\n", wh_bench_case_name(i),
                                 wh_bench_case_text(i));
    }
    used += (size_t)snprintf(s + used, HELP_ROOM - used, "\nSuites:\n");
    for (size_t i = 0; wh_bench_suite_at(i) != NULL && used < HELP_ROOM - 512; i++) {
        used += (size_t)snprintf(s + used, HELP_ROOM - used, "  %-12s %s\n",
                                 wh_bench_suite_at(i)->name, wh_bench_suite_at(i)->text);
    }
    (void)snprintf(s + used, HELP_ROOM - used,
                   "\nLists are separated by commas; sizes accept K, M and G. Exit status: 0, 1 "
                   "if a block was bad or the run failed, 2 if the request cannot be run.\n");
    return s;
}

/* Lets the options of the benchmark be what was parsed. */
static void fill_options(request *r) {
    wh_bench_options *o = &r->bench;
    o->allocs = (const char *const *)r->allocs.v;
    o->n_allocs = r->allocs.n;
    o->cases = (const char *const *)r->cases.v;
    o->n_cases = r->cases.n;
    o->kinds = (const char *const *)r->kinds.v;
    o->n_kinds = r->kinds.n;
    o->inputs = (const char *const *)r->inputs.v;
    o->n_inputs = r->inputs.n;
    o->sizes = r->sizes.v;
    o->n_sizes = r->sizes.n;
    o->threads = r->threads.v;
    o->n_threads = r->threads.n;
    o->options = r->options;
    o->n_options = r->n_options;
}

static void release(request *r) {
    cli_free_names(&r->allocs);
    cli_free_names(&r->cases);
    cli_free_names(&r->kinds);
    cli_free_names(&r->inputs);
    cli_free_names(&r->options_set);
    cli_free_numbers(&r->sizes);
    cli_free_numbers(&r->threads);
    free(r->options);
}

static const struct argp argp = {
    options, parse,        NULL, "Measures allocators; docs/BENCHMARK.md describes it.\v.",
    NULL,    &help_filter, NULL};

/* A line of options for the child of a suite. */
static wh_bench_outcome answer(int argc, char **argv, char *error, size_t size) {
    static int has_run;
    wh_bench_outcome outcome = WH_BENCH_USAGE;
    request r;
    memset(&r, 0, sizeof r);
    if (argp_parse(&argp, argc, argv, ARGP_NO_EXIT, NULL, &r) != 0) {
        (void)snprintf(error, size, "options that cannot be understood");
    } else {
        fill_options(&r);
        r.bench.stream = stdout;
        r.bench.awake = has_run; /* the next cell follows at once */
        has_run |= !r.about;
        outcome =
            r.about ? wh_bench_about(&r.bench, error, size) : wh_bench_run(&r.bench, error, size);
    }
    release(&r);
    return outcome;
}

static int run_suite(request *r) {
    suite_request *s = &r->suite;
    if (r->own != NULL) {
        return cli_complain("--%s does not go with --suite: the suite says it", r->own);
    }
    if (s->path != NULL && r->bench.json != NULL) {
        return cli_complain("--json and --resume are two files for the results; give one");
    }
    s->path = s->path != NULL ? s->path : r->bench.json;
    if (s->path == NULL) {
        return cli_complain("--suite wants a file for the results: --json or --resume FILE");
    }
    s->device = r->bench.device;
    s->seed = r->bench.seed;
    s->allocs = &r->allocs;
    s->cases = &r->cases;
    return cli_suite(s);
}

static int run(request *r) {
    char error[1024];
    wh_bench_options *o = &r->bench;
    if (r->list != NULL) {
        show_list(r->list, r->suite.suite);
        return 0;
    }
    if (r->serve) {
        return cli_bench_serve(answer);
    }
    if (r->suite.suite != NULL) {
        return run_suite(r);
    }
    if (r->for_suites != NULL) {
        return cli_complain("%s is for suites; give --suite NAME, too", r->for_suites);
    }
    fill_options(r);
    o->table = stdout;
    o->progress = isatty(STDERR_FILENO) ? stderr : NULL;
    const wh_bench_outcome outcome = wh_bench_run(o, error, sizeof error);
    if (outcome != WH_BENCH_OK) {
        (void)cli_complain("%s", error);
    }
    return (int)outcome;
}

int cli_bench(int argc, char **argv) {
    if (cli_bench_has_ranks(argc, argv)) {
        return cli_bench_ranks(argc, argv);
    }
    request r;
    memset(&r, 0, sizeof r);
    argp_err_exit_status = CLI_USAGE;
    const error_t e = argp_parse(&argp, argc, argv, 0, NULL, &r);
    int status = r.status;
    if (e == 0) {
        status = run(&r);
    } else if (status == 0) {
        status = cli_complain("%s", strerror(e));
    }
    release(&r);
    return status;
}
