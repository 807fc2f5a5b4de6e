/* ranks_test.h: what the tests of several ranks share. Every rank runs all of a program; where one
 * fails, the others hear of it when they wait for it. */
#ifndef RANKS_TEST_H
#define RANKS_TEST_H

#include "sim/sim_test.h"

#include <mpi.h>

#include "workload/ranks/comm.h"

#define MOST_RANKS 16

/* Of all ranks the same, if `state` is. */
static UNUSED uint32_t below(uint64_t *state, uint32_t n) {
    return (uint32_t)(next_random(state) >> 8) % n;
}

static UNUSED wh_comm *open_comm(uint64_t piece) {
    wh_comm *c = NULL;
    wh_comm_failure failure;
    wh_comm_options o;
    memset(&o, 0, sizeof o);
    o.seconds = 60;
    o.piece = piece;
    const wh_status s = wh_comm_open_mpi(&c, &o, &failure);
    if (s != WH_OK) {
        fail_msg("%s", failure.text);
    }
    assert_true(wh_comm_size(c) <= MOST_RANKS);
    return c;
}

/* Of a test that wants another rank: it skips. */
static UNUSED bool is_alone(void) {
    int size = 0;
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size == 1;
}

/* Where WH_TEST_DEVICE is "cuda", a rank has the GPU of its number in its machine; ranks may share
 * one. */
static UNUSED bool on_gpu(void) {
    const char *text = getenv("WH_TEST_DEVICE");
    return text != NULL && strcmp(text, "cuda") == 0;
}

/* All ranks: the simulated device with these options (NULL: the default ones), or that GPU. */
static UNUSED wh_device *open_device(const wh_sim_options *options) {
    wh_device *d = NULL;
    MPI_Comm local;
    char spec[16] = "sim";
    int rank = 0;
    if (on_gpu()) {
        const uint32_t n = wh_device_cuda_count();
        assert_true(n != 0);
        (void)MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
        (void)MPI_Comm_rank(local, &rank);
        (void)MPI_Comm_free(&local);
        (void)snprintf(spec, sizeof spec, "cuda:%u", (uint32_t)rank % n);
    }
    assert_int_equal(wh_device_open(&d, spec, options), WH_OK);
    return d;
}

/* A status, or what the communicator says. */
static UNUSED void expect_ok(const wh_comm *c, wh_status s) {
    if (s != WH_OK) {
        fail_msg("rank %d: %s: %s", wh_comm_rank(c), wh_status_name(s),
                 wh_comm_last_failure(c)->text);
    }
}

/* Runs the tests one after the other; the first one that fails on a rank ends all ranks. */
static UNUSED int run_ranks(const struct CMUnitTest *tests, size_t n) {
    int given = 0;
    (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    for (size_t i = 0; i < n; i++) {
        const struct CMUnitTest one[] = {tests[i]};
        if (cmocka_run_group_tests_name(tests[i].name, one, NULL, NULL) != 0) {
            (void)fflush(stdout);
            (void)MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    (void)MPI_Finalize();
    return 0;
}

#endif
