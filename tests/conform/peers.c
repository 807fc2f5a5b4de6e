/* peers.c: the case of a heap that kernels of two devices use at the same time. */
#include "case.h"

/* Each half of `order`, or two calls of other numbers, on both devices at once. */
static void run_on_both(context *x, conform_launcher kernel, const char *name) {
    const uint64_t half = x->call.n / 2;
    conform_call calls[2] = {x->call, x->call};
    wh_launch launches[2] = {x->launch, x->launch};
    calls[0].n = half;
    calls[1].n -= half;
    calls[1].order += half;
    if (kernel == x->kernels->churn) { /* an item's contents go with the seed */
        calls[1].seed = ~calls[1].seed;
    }
    launches[1].device = x->peer;
    memset(&x->result, 0, sizeof x->result);
    OK(x, wh_device_copy_in(x->device, x->call.result, &x->result, sizeof x->result));
    for (uint32_t i = 0; i < 2; i++) {
        launches[i].stream = x->streams[i];
        ok(x, kernel(&launches[i], &calls[i]), name);
    }
    const uint32_t waits = (uint32_t)(random_of(x) % 2);
    ok(x, wh_device_sync(waits == 0 ? x->device : x->peer), name);
    OK(x, wh_device_copy_out(x->device, &x->result, x->call.result, sizeof x->result));
    if (x->result.errors != 0) {
        fail(x, "kernel %s on two devices: error %" PRIu64 " of conform.h (item %" PRIu64 ")", name,
             x->result.first_error, x->result.first_item);
    }
}
#define RUN_ON_BOTH(x, kernel) run_on_both(x, (x)->kernels->kernel, #kernel)

/* The peer has a number of SMs of its own. */
static void open_peer(context *x) {
    wh_sim_options o = suite_sim_options(x->seed + 1, x->policy);
    o.weak = WH_SIM_WEAK_NONE;
    OK(x, wh_device_open(&x->peer, x->target, &o));
    OK(x, wh_stream_create(x->device, &x->streams[0]));
    OK(x, wh_stream_create(x->peer, &x->streams[1]));
    OK(x, wh_heap_enable_peer(x->heap, x->peer));
    CHECK_EQUAL(x, wh_heap_peers(x->heap), 1);
    OK(x, x->kernels->bind(x->heap, &x->call.heap));
}

/* Blocks of both devices are disjoint, each frees those of the other, and nothing is lost. On GPUs
 * these kernels, which are of one GPU's scope, may not do so: tests/gpu/peers.cu is for them. */
void case_peers(context *x) {
    if (strcmp(x->target, "sim") != 0) {
        return;
    }
    open_peer(x);
    const int room_for_all = mixed_items(x, 2 + some_items(x), some_max(x));
    const uint32_t rounds = x->launch.threads < 256 ? 2 : 1;
    for (uint32_t round = 0; round < rounds; round++) {
        shuffle(x);
        RUN_ON_BOTH(x, allocate);
        if (room_for_all) {
            CHECK_EQUAL(x, x->result.nulls, 0);
        }
        check_used(x);
        x->launch.device = round % 2 == 0 ? x->device : x->peer; /* one writes, the other reads */
        RUN(x, fill);
        x->launch.device = round % 2 == 0 ? x->peer : x->device;
        RUN(x, verify);
        x->launch.device = x->device;
        shuffle(x);
        if (!can(x, WH_CAP_FREE)) {
            return;
        }
        RUN_ON_BOTH(x, release);
        check_empty(x);
        x->call.min_size = 1;
        x->call.max_size = 1 + some_max(x);
        x->call.steps = 8;
        x->call.hold = 2;
        x->call.strict = 0;
        RUN_ON_BOTH(x, churn);
        CHECK(x, x->result.served > 0);
        check_empty(x);
    }
}
