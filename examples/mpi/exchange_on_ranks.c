/* exchange_on_ranks.c: the communicator alone. mpirun -n 4 exchange_on_ranks [device]. */
#include <stdio.h>
#include <stdlib.h>

#include "workload/ranks/comm.h"

enum { MOST = 64, MANY = 1000 }; /* ranks; numbers for each */

static void must(wh_comm *comm, wh_status status, const wh_comm_failure *failure) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", failure->text);
        wh_comm_close(comm);
        _Exit(1);
    }
}

int main(int argc, char **argv) {
    static uint32_t numbers[MOST * MANY]; /* MANY for rank 0, MANY for rank 1, ... */
    uint64_t bytes[MOST], sum = 0;
    wh_comm *comm = NULL;
    wh_comm_failure failure;
    wh_status status = wh_comm_open_mpi(&comm, NULL, &failure);
    must(comm, status, &failure);
    const uint64_t n = (uint64_t)wh_comm_size(comm), all = n * MANY * sizeof *numbers;
    for (uint64_t i = 0; i < n * MANY && i < MOST * MANY; i++) {
        numbers[i] = (uint32_t)i;
        bytes[i / MANY] = MANY * sizeof *numbers; /* to that rank */
    }
    const char *spec = argc > 1 ? argv[1] : "sim"; /* as in graph_on_ranks.c */
    wh_device *device = NULL;
    void *send = NULL;
    /* [ranks exchange */
    status = n > MOST ? WH_BAD_ARGUMENT : wh_device_open(&device, spec, NULL);
    status = status == WH_OK ? wh_device_alloc(device, &send, all) : status;
    status = status == WH_OK ? wh_device_copy_in(device, send, numbers, all) : status;
    wh_comm_report(comm, status, "too many ranks, or no device"); /* all ranks' next call says it */
    wh_comm_buffer got = {.device = device}; /* whose memory goes and comes; NULL: the host's */
    must(comm, wh_comm_all_to_all(comm, send, bytes, &got), wh_comm_last_failure(comm));
    wh_comm_report(comm, wh_device_copy_out(device, numbers, got.data, all), "the copy failed");
    for (uint64_t i = 0; i < n * MANY; i++) { /* those of rank r begin at byte got.offset[r] */
        sum += numbers[i];
    }
    must(comm, wh_comm_all_reduce(comm, &sum, 1, WH_COMM_U64, WH_COMM_SUM),
         wh_comm_last_failure(comm));
    /* ranks] */
    printf("rank %d: the sum of all is %llu\n", wh_comm_rank(comm), (unsigned long long)sum);
    wh_comm_buffer_free(&got);
    wh_device_close(device);
    return wh_comm_close(comm) == WH_OK && sum == n * n * MANY * (n * MANY - 1) / 2 ? 0 : 1;
}
