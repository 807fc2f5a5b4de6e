/* driver.c: a run of `warpheap bench --ranks`: the communicator, the cases. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ranks/ranks.h"

#define SECONDS 600.0

static const whi_ranks_defaults gpu_defaults = {
    .sizes = {1000000, 10000000, 0},
    .small = {200000, 0},
    .rows = (uint64_t)64 << 20,
    .blocks = 1000000,
    .most_bytes = (uint64_t)64 << 20,
    .heap_bytes = (uint64_t)1 << 30,
    .reps = 10,
    .agreements = 100,
};
static const whi_ranks_defaults sim_defaults = {
    .sizes = {2000, 0},
    .small = {500, 0},
    .rows = 2000,
    .blocks = 1000,
    .most_bytes = (uint64_t)64 << 10,
    .heap_bytes = (uint64_t)8 << 20,
    .reps = 2,
    .agreements = 10,
};

static const struct {
    const char *name, *text;
    wh_status (*run)(whi_ranks *b);
} cases[] = {
#define ENTRY(name, function, text) {name, text, function},
    WHI_RANKS_CASE_LIST(ENTRY)};

#define N_CASES (sizeof cases / sizeof *cases)

const char *whi_ranks_case_name(size_t index) {
    return index < N_CASES ? cases[index].name : NULL;
}

const char *whi_ranks_case_text(size_t index) {
    return index < N_CASES ? cases[index].text : NULL;
}

/* A line of rank 0, to stderr; the exit status of a request that cannot be run. */
static int refuse(const whi_ranks *b, const char *text) {
    if (b->rank == 0) {
        (void)fprintf(stderr, "warpheap: %s\n", text);
    }
    return WH_BENCH_USAGE;
}

/* --- devices --------------------------------------------------------------------------------- */

/* The first rank before r that has the same GPU; -1: none has. */
static int shares_with(const whi_ranks *b, int r) {
    for (int k = 0; k < r; k++) {
        if (b->places[r].is_gpu && b->places[k].is_gpu &&
            b->places[k].machine == b->places[r].machine &&
            strcmp(b->places[k].bus, b->places[r].bus) == 0) {
            return k;
        }
    }
    return -1;
}

/* Whether each rank has a GPU of its own; says where this is not so. */
static int have_own(const whi_ranks *b) {
    int own = 1;
    for (int r = 0; r < b->size; r++) {
        const int other = shares_with(b, r);
        own &= b->places[r].is_gpu && other < 0;
        if (other >= 0 && b->rank == 0) {
            (void)printf("warning: ranks %d and %d share a GPU: %s, %s\n", other, r,
                         b->places[r].device, b->places[r].bus);
        }
    }
    return own;
}

/* --- the run --------------------------------------------------------------------------------- */

static int wants(const whi_ranks *b, const char *name) {
    const whi_ranks_options *o = b->options;
    for (size_t i = 0; i < o->n_cases; i++) {
        if (strcmp(o->cases[i], name) == 0) {
            return 1;
        }
    }
    return o->n_cases == 0;
}

static wh_status run_cases(whi_ranks *b) {
    for (size_t i = 0; i < N_CASES; i++) {
        if (wants(b, cases[i].name)) {
            memset(&b->part, 0, sizeof b->part);
            b->case_name = cases[i].name;
            WHI_BENCH_TRY(cases[i].run(b));
        }
    }
    return WH_OK;
}

/* 0, or the exit status. */
static int open_comm(whi_ranks *b) {
    const whi_ranks_options *o = b->options;
    const int own = have_own(b), asked = o->engine != NULL;
    wh_comm_options options;
    wh_comm_failure failure;
    memset(&options, 0, sizeof options);
    memset(&failure, 0, sizeof failure);
    options.seconds = o->seconds > 0 ? o->seconds : SECONDS;
    options.device = b->device;
    options.asks = o->asks;
    if (asked && strcmp(o->engine, "nccl") == 0 && !own) {
        return refuse(b, "--engine nccl wants a GPU of its own for each rank; mpi does without");
    }
    wh_status s = WH_UNSUPPORTED;
    if (asked ? strcmp(o->engine, "nccl") == 0 : own) {
        b->engine = "nccl";
        s = wh_comm_open_nccl(&b->comm, &options, &failure);
    }
    if (s == WH_UNSUPPORTED && (!asked || strcmp(o->engine, "mpi") == 0)) {
        b->engine = "mpi";
        s = wh_comm_open_mpi(&b->comm, &options, &failure);
    }
    if (s != WH_OK) {
        (void)fprintf(stderr, "warpheap: rank %d: %s\n", b->rank, failure.text);
        return s == WH_UNSUPPORTED ? WH_BENCH_USAGE : WH_BENCH_FAILED;
    }
    return 0;
}

static wh_status open_json(whi_ranks *b) {
    if (b->rank == 0 && b->options->json != NULL) {
        b->json = fopen(b->options->json, "w");
        if (b->json == NULL || whi_ranks_write_header(b) != 0) {
            (void)snprintf(b->error, sizeof b->error, "cannot write '%.120s'", b->options->json);
            return WH_IO_ERROR;
        }
    }
    return WH_OK;
}

static int run_with_comm(whi_ranks *b) {
    if (whi_ranks_agree(b, open_json(b), "the results") != WH_OK) {
        return refuse(b, wh_comm_last_failure(b->comm)->text);
    }
    if (b->rank == 0) {
        (void)printf("%d rank%s, data goes by %s\n", b->size, b->size > 1 ? "s" : "", b->engine);
    }
    const wh_status s = run_cases(b);
    const wh_comm_failure *failure = wh_comm_last_failure(b->comm);
    if (s != WH_OK && b->rank == (failure->rank == 0 ? 1 : 0)) {
        (void)fprintf(stderr, "warpheap: it is over: %s\n", failure->text);
    } else if (b->rank == 0 && (b->total_bad != 0 || b->total_failed != 0)) {
        (void)fprintf(stderr, "warpheap: %llu results are wrong, %llu parts failed\n",
                      (unsigned long long)b->total_bad, (unsigned long long)b->total_failed);
    }
    if (b->json != NULL && fclose(b->json) != 0) {
        b->unwritten = 1;
    }
    if (b->unwritten) {
        (void)fprintf(stderr, "warpheap: cannot write the results\n");
    }
    return s != WH_OK || b->total_bad != 0 || b->total_failed != 0 || b->unwritten ? WH_BENCH_FAILED
                                                                                   : WH_BENCH_OK;
}

/* Where a rank has no device, all say nothing but rank 0. */
static int run_in_places(whi_ranks *b) {
    for (int r = 0; r < b->size; r++) {
        if (b->places[r].status != WH_OK) {
            char text[192];
            (void)snprintf(text, sizeof text, "rank %d: %s", r, b->places[r].device);
            return refuse(b, text);
        }
        if (b->places[r].is_gpu != b->places[0].is_gpu) {
            return refuse(b, "some ranks have GPUs, and some simulated devices");
        }
    }
    b->defaults = b->on_sim ? &sim_defaults : &gpu_defaults;
    b->reps = b->options->reps != 0 ? b->options->reps : b->defaults->reps;
    const int refused = open_comm(b);
    const int status = refused != 0 ? refused : run_with_comm(b);
    const int is_over = b->comm != NULL && whi_ranks_is_over(b);
    if (wh_comm_close(b->comm) != WH_OK || is_over) {
        (void)fflush(stdout);
        _Exit(WH_BENCH_FAILED); /* MPI cannot be ended */
    }
    wh_device_close(b->device);
    return status;
}

int whi_ranks_run(const whi_ranks_options *options, const char *complaint) {
    whi_ranks b;
    memset(&b, 0, sizeof b);
    b.options = options;
    if (!whi_ranks_start_mpi(&b)) {
        return WH_BENCH_FAILED;
    }
    const int refused = whi_ranks_take_places(&b, complaint);
    const int status = refused != WH_BENCH_OK ? refused : run_in_places(&b);
    free(b.places);
    (void)MPI_Finalize();
    return status;
}
