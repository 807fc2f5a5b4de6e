/* places.c: what comes before the work of `warpheap bench --ranks`: whether all ranks want the
 * same, and who is where. By a communicator of its own, with a deadline, since a rank may have
 * ended, or refuse its options. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if WH_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "bench/bench.h"
#include "bench/ranks/ranks.h"

#define SECONDS 60.0
#define LEAST_INIT_SECONDS 10.0 /* MPI_Init is slow where there are more ranks than cores */
#define MOST_INIT_SECONDS 1e6
/* What the simulated device has: a bound on what a request can make this machine use. */
#define SIM_MEMORY_BYTES ((uint64_t)8 << 30)

/* What a rank says of itself first. */
typedef struct greeting {
    char machine[MPI_MAX_PROCESSOR_NAME];
    char complaint[256];
} greeting;

static double seconds_of(const whi_ranks *b) {
    return b->options->seconds > 0 ? b->options->seconds : SECONDS;
}

/* --- MPI ------------------------------------------------------------------------------------- */

static void end_waiting(int signal_number) {
    static const char text[] = "warpheap: MPI_Init waits for too long: a rank has not come to it, "
                               "or has ended before\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)signal_number;
    (void)written;
    _exit(WH_BENCH_FAILED);
}

int whi_ranks_start_mpi(whi_ranks *b) {
    int given = 0;
    double seconds = seconds_of(b);
    seconds = seconds < LEAST_INIT_SECONDS ? LEAST_INIT_SECONDS : seconds;
    seconds = seconds > MOST_INIT_SECONDS ? MOST_INIT_SECONDS : seconds;
    (void)signal(SIGALRM, end_waiting);
    (void)alarm((unsigned)seconds);
    const int e = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    (void)alarm(0);
    (void)signal(SIGALRM, SIG_DFL);
    return e == MPI_SUCCESS && MPI_Comm_rank(MPI_COMM_WORLD, &b->rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, &b->size) == MPI_SUCCESS;
}

/* --- options --------------------------------------------------------------------------------- */

static void add_bytes(uint64_t *hash, const void *data, size_t n) { /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    }
}

/* Of all options but what a rank may have of its own: its device, its file, how it waits. */
static uint64_t hash_options(const whi_ranks_options *o) {
    const char *engine = o->engine != NULL ? o->engine : "";
    const uint64_t numbers[] = {o->n_cases,    o->n_sizes,    o->n_rows, o->blocks,
                                o->most_bytes, o->heap_bytes, o->seed,   o->reps};
    uint64_t hash = 0xcbf29ce484222325u;
    add_bytes(&hash, numbers, sizeof numbers);
    add_bytes(&hash, &o->seconds, sizeof o->seconds);
    add_bytes(&hash, engine, strlen(engine) + 1);
    for (size_t i = 0; i < o->n_cases; i++) {
        add_bytes(&hash, o->cases[i], strlen(o->cases[i]) + 1);
    }
    for (size_t i = 0; i < o->n_sizes; i++) {
        add_bytes(&hash, &o->sizes[i], sizeof o->sizes[i]);
    }
    for (size_t i = 0; i < o->n_rows; i++) {
        add_bytes(&hash, &o->rows[i], sizeof o->rows[i]);
    }
    return hash;
}

/* 0, or the exit status if a rank cannot run its options; rank 0 says which one, unless all ranks
 * say the same. */
static int hear_complaints(const whi_ranks *b, const greeting *all) {
    int first = 0, n_alike = 0;
    while (first < b->size && all[first].complaint[0] == '\0') {
        first++;
    }
    if (first == b->size) {
        return WH_BENCH_OK;
    }
    for (int r = 0; r < b->size; r++) {
        n_alike += strcmp(all[r].complaint, all[first].complaint) == 0;
    }
    if (b->rank == 0 && n_alike == b->size) {
        (void)fprintf(stderr, "warpheap: %s\n", all[first].complaint);
    } else if (b->rank == 0) {
        (void)fprintf(stderr, "warpheap: rank %d: %s\n", first, all[first].complaint);
    }
    return WH_BENCH_USAGE;
}

/* --- devices --------------------------------------------------------------------------------- */

static void open_device(whi_ranks *b, int local_rank, whi_ranks_place *place) {
    const char *spec = b->options->device != NULL ? b->options->device : "auto";
    const uint32_t n_gpus = wh_device_cuda_count();
    char gpu[24];
    wh_sim_options sim;
    memset(&sim, 0, sizeof sim);
    sim.seed = b->options->seed;
    sim.memory_bytes = SIM_MEMORY_BYTES;
    if (n_gpus != 0 && (strcmp(spec, "auto") == 0 || strcmp(spec, "cuda") == 0)) {
        (void)snprintf(gpu, sizeof gpu, "cuda:%u", (uint32_t)local_rank % n_gpus);
        spec = gpu;
    }
    place->status = (int)wh_device_open(&b->device, spec, &sim);
    if (place->status != WH_OK) {
        (void)snprintf(place->device, sizeof place->device, "device '%s': %s: %.80s", spec,
                       wh_status_text((wh_status)place->status), wh_last_error_text());
        return;
    }
    b->info = wh_device_get_info(b->device);
    b->on_sim = b->info->target == WH_TARGET_SIM;
    place->is_gpu = !b->on_sim;
    (void)snprintf(place->device, sizeof place->device, "%s", b->info->name);
#if WH_HAVE_CUDA
    if (place->is_gpu &&
        cudaDeviceGetPCIBusId(place->bus, sizeof place->bus, b->info->ordinal) != cudaSuccess) {
        place->status = WH_DEVICE_ERROR;
    }
#endif
}

/* A device for this rank, by its number among those of its machine. */
static void take_own(whi_ranks *b, const greeting *all, whi_ranks_place *own) {
    int local_rank = 0;
    memset(own, 0, sizeof *own);
    own->machine = b->rank; /* of the first rank there */
    for (int r = b->rank - 1; r >= 0; r--) {
        if (strcmp(all[r].machine, all[b->rank].machine) == 0) {
            own->machine = r;
            local_rank++;
        }
    }
    open_device(b, local_rank, own);
}

/* --- all ranks ------------------------------------------------------------------------------- */

/* What of it all ranks do together; *refused: an exit status. */
static wh_status meet(whi_ranks *b, wh_comm *c, const char *complaint, int *refused,
                      wh_comm_buffer *came) {
    greeting hello;
    whi_ranks_place own;
    int length = 0;
    memset(&hello, 0, sizeof hello);
    (void)MPI_Get_processor_name(hello.machine, &length);
    (void)snprintf(hello.complaint, sizeof hello.complaint, "%s", complaint);
    WHI_BENCH_TRY(wh_comm_all_gather(c, &hello, sizeof hello, came));
    const greeting *all = (const greeting *)came->data;
    *refused = hear_complaints(b, all);
    if (*refused != WH_BENCH_OK) {
        return WH_OK;
    }
    wh_comm_expect(c, hash_options(b->options), "options of the benchmark");
    WHI_BENCH_TRY(wh_comm_agree(c));
    take_own(b, all, &own);
    b->places = calloc((size_t)b->size, sizeof *b->places);
    if (b->places == NULL) {
        wh_comm_report(c, WH_OUT_OF_MEMORY, "no host memory for what ranks say");
    }
    WHI_BENCH_TRY(wh_comm_all_gather(c, &own, sizeof own, came));
    memcpy(b->places, came->data, (size_t)b->size * sizeof *b->places);
    return WH_OK;
}

/* Rank 0 says what went wrong; the others, if it has not come. */
static void say(const whi_ranks *b, const wh_comm_failure *f) {
    if (b->rank == 0 || (f->rank == 0 && f->reason == WH_COMM_TIMED_OUT)) {
        (void)fprintf(stderr, "warpheap: %s\n", f->text);
    }
}

int whi_ranks_take_places(whi_ranks *b, const char *complaint) {
    wh_comm *c = NULL;
    wh_comm_options options;
    wh_comm_failure failure;
    wh_comm_buffer came;
    int status = WH_BENCH_OK;
    memset(&options, 0, sizeof options);
    memset(&failure, 0, sizeof failure);
    memset(&came, 0, sizeof came);
    options.seconds = seconds_of(b);
    options.asks = b->options->asks;
    wh_status s = wh_comm_open_mpi(&c, &options, &failure);
    if (c == NULL) { /* the others will say who did not come */
        (void)fprintf(stderr, "warpheap: rank %d: %s\n", b->rank, wh_status_text(s));
        _Exit(WH_BENCH_FAILED);
    }
    s = s == WH_OK ? meet(b, c, complaint, &status, &came) : s;
    failure = *wh_comm_last_failure(c);
    if (s != WH_OK) {
        say(b, &failure);
        status = failure.reason == WH_COMM_UNEQUAL ? WH_BENCH_USAGE : WH_BENCH_FAILED;
    }
    if (failure.reason <= WH_COMM_REPORTED) {
        wh_comm_buffer_free(&came);
    }
    if (wh_comm_close(c) != WH_OK) {
        (void)fflush(stdout);
        _Exit(status != WH_BENCH_OK ? status : WH_BENCH_FAILED); /* MPI cannot be ended */
    }
    return status;
}
