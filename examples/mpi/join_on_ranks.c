/* join_on_ranks.c: a join of tables of which each rank has a part: orders with their customers'
 * regions. Started by mpirun: mpirun -n 4 join_on_ranks [device], as graph_on_ranks.c. */
/* [ranks join */
#include <stdio.h>
#include <stdlib.h>

#include "workload/ranks/tables.h"

#define CUSTOMERS 500u
#define ORDERS 4000u

/* The failure names the rank; wh_comm_close waits until the others have said theirs. */
static void must(wh_comm *comm, wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_comm_last_failure(comm)->text);
        wh_comm_close(comm);
        _Exit(1);
    }
}

static const void *to_device(wh_comm *comm, wh_device *device, const uint32_t *column) {
    void *p = NULL;
    wh_status s = wh_device_alloc(device, &p, ORDERS * sizeof *column);
    s = s == WH_OK ? wh_device_copy_in(device, p, column, ORDERS * sizeof *column) : s;
    wh_comm_report(comm, s, "no memory for a column"); /* the next call says it on all ranks */
    return p;
}

int main(int argc, char **argv) {
    wh_comm *comm = NULL;
    wh_comm_failure failure;
    if (wh_comm_open_mpi(&comm, NULL, &failure) != WH_OK) {
        fprintf(stderr, "%s\n", failure.text);
        wh_comm_close(comm);
        _Exit(1);
    }
    const uint32_t rank = (uint32_t)wh_comm_rank(comm), ranks = (uint32_t)wh_comm_size(comm);
    wh_shard_join_options options = {0};
    wh_heap_options heap_options = {0};
    heap_options.bytes = 16 << 20;
    wh_status status = wh_device_open(&heap_options.device, argc > 1 ? argv[1] : "sim", NULL);
    status = status == WH_OK ? wh_heap_create(&options.heap, &heap_options) : status;
    wh_comm_report(comm, status, "no device, or no heap");
    must(comm, wh_comm_agree(comm));

    static uint32_t customer[ORDERS], region[ORDERS], buyer[ORDERS]; /* this rank's part of them */
    wh_table customers = {0}, orders = {0};
    for (uint32_t c = rank; c < CUSTOMERS; c += ranks) {
        customer[customers.n] = c;
        region[customers.n++] = c % 7;
    }
    for (uint32_t o = rank; o < ORDERS; o += ranks) { /* customer 3 has a third of them */
        buyer[orders.n++] = o / ranks % 3 == 0 ? 3 : o % CUSTOMERS;
    }
    customers.key = to_device(comm, heap_options.device, customer);
    customers.value = to_device(comm, heap_options.device, region);
    orders.key = to_device(comm, heap_options.device, buyer);

    wh_shard_join *join = NULL;
    wh_shard_join_result result;
    options.comm = comm;
    options.build_value = WH_VALUE_4;   /* the region */
    options.probe_value = WH_VALUE_ROW; /* which order, of which rank */
    must(comm, wh_shard_join_create(&join, &options));
    must(comm, wh_shard_join_run(join, &customers, &orders, &result));
    wh_shard_work work;
    wh_shard_join_get_work(join, &work);
    printf("rank %u has %u of %u rows; %u keys were split\n", rank, (unsigned)result.own.rows,
           (unsigned)result.all_rows, (unsigned)work.heavy);

    wh_shard_join_destroy(join);
    wh_heap_destroy(options.heap);
    wh_device_close(heap_options.device); /* and what lies in its memory */
    return wh_comm_close(comm) == WH_OK ? 0 : 1;
}
/* ranks] */
