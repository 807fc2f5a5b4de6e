/* run.c: one run of a workload: the device, the heap, the kernels, the verdict. */
#include <stdio.h>
#include <string.h>

#include "fault/fault.h"

typedef struct run {
    const workload *w;
    uint64_t seed;
    wh_device *device, *peer;
    wh_heap *heap;
    void *memory;
    workload_args args;
    findings found;
    wh_report report;
} run;

static wh_sim_options sim_options(const suite *s, const workload *w, uint64_t seed) {
    static const wh_sim_policy policies[] = {WH_SIM_RANDOM, WH_SIM_STICKY, WH_SIM_STALL,
                                             WH_SIM_PCT};
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.seed = seed;
    o.policy = w->stint != 0 ? WH_SIM_STICKY : policies[seed % 4];
    o.policy_arg = w->stint;
    o.weak = WH_SIM_WEAK_NONE;
    if (w->weak == WEAK_FORMAL) {
        o.weak = WH_SIM_WEAK_FORMAL;
    } else if (w->weak == WEAK_BY_SEED && seed / 8 % 2 != 0) {
        o.weak = WH_SIM_WEAK_GPU;
    }
    o.step_budget = s->step_budget;
    o.blocks_per_sm = 8;
    return o;
}

static wh_status make_heap(run *r) {
    const workload *w = r->w;
    wh_any_options own = {0};
    wh_heap_options options;
    memset(&options, 0, sizeof options);
    options.device = r->device;
    options.allocator = w->allocator;
    for (size_t i = 0; i < sizeof w->options / sizeof *w->options; i++) {
        if (w->options[i].name != NULL) {
            set_option(&options, &own, w->options[i].name, w->options[i].value);
        }
    }
    wh_status s = w->make(w, r->seed, &options, &own, &r->heap);
    if (s == WH_OK && w->peers) {
        s = wh_heap_enable_peer(r->heap, r->peer);
    }
    return s == WH_OK ? wh_heap_handle_of(r->heap, w->allocator, 0, &r->args.heap, w->handle_bytes)
                      : s;
}

/* What the kernels work on lies in one piece of memory. */
static wh_status make_args(run *r) {
    workload_args *a = &r->args;
    const workload *w = r->w;
    const uint64_t words = wh_veb_words(UNIVERSE);
    const uint64_t queue = sizeof *a->queue + sizeof *a->pool + 16 * 32;
    const uint64_t bytes =
        (words + UNIVERSE) * 8 + sizeof(wh_ring) + 64 * 4 + 64 + sizeof r->found + 64 + queue;
    wh_status s = wh_device_alloc(r->device, &r->memory, bytes);
    s = s == WH_OK ? wh_device_set(r->device, r->memory, 0, bytes) : s;
    if (s != WH_OK) {
        return s;
    }
    uint64_t *at = r->memory;
    a->set = wh_veb_make(at, UNIVERSE);
    a->data = at + words;
    a->kept = (void **)(void *)a->data;
    a->ring = (wh_ring *)(void *)(a->data + UNIVERSE);
    a->entries = (uint32_t *)(void *)(a->ring + 1);
    a->semaphore = a->entries + 64;
    a->found = (findings *)(void *)(a->semaphore + 16);
    a->queue = (wh_vqueue_words *)(void *)(a->semaphore + 32);
    a->pool = (wh_chunk_pool_words *)(void *)(a->queue + 1);
    a->seed = (uint32_t)r->seed;
    a->steps = w->steps;
    a->least = w->least;
    a->most = w->most;
    a->holds = w->holds;
    a->kinds = w->kinds;
    if (w->prepare != NULL) {
        w->prepare(a);
    }
    return WH_OK;
}

/* The kernel on both devices, whose lanes take turns in any order. */
static wh_status launch_on_both(run *r) {
    wh_launch l = {r->device, r->w->blocks, r->w->threads, NULL};
    void *streams[2] = {NULL, NULL};
    wh_status s = WH_OK;
    for (uint32_t i = 0; i < 2 && s == WH_OK; i++) {
        l.device = i == 0 ? r->device : r->peer;
        s = wh_stream_create(l.device, &streams[i]);
        l.stream = streams[i];
        r->args.device = i;
        s = s == WH_OK ? r->w->kernel(&l, &r->args) : s;
    }
    s = s == WH_OK ? wh_device_sync(r->device) : s;
    (void)wh_stream_destroy(r->device, streams[0]);
    (void)wh_stream_destroy(r->peer, streams[1]);
    return s;
}

static wh_status launch(run *r) {
    const workload *w = r->w;
    const wh_launch l = {r->device, w->blocks, w->threads, NULL};
    wh_status s = w->peers ? launch_on_both(r) : w->kernel(&l, &r->args);
    if (w->then != NULL) {
        s = s == WH_OK && r->heap != NULL ? wh_heap_check(r->heap, &r->report) : s;
        s = s == WH_OK ? w->then(&l, &r->args) : s;
    }
    return s == WH_OK ? wh_device_copy_out(r->device, &r->found, r->args.found, sizeof r->found)
                      : s;
}

/* In the end the heap must be sound, and empty. */
static wh_status check_heap(run *r) {
    wh_stats stats;
    wh_status s = wh_heap_check(r->heap, &r->report);
    s = s == WH_OK ? wh_heap_get_stats(r->heap, &stats) : s;
    if (s == WH_OK) {
        r->found.lost += stats.live_blocks != 0 || stats.bad_frees != 0;
    }
    return s;
}

int fault_run(const suite *of, const workload *w, uint64_t seed) {
    run r;
    memset(&r, 0, sizeof r);
    r.w = w;
    r.seed = seed;
    const wh_sim_options sim = sim_options(of, w, seed);
    wh_status s = wh_device_open(&r.device, "sim", &sim);
    if (s == WH_OK && w->peers) { /* of more SMs: it has numbers that the heap was not made for */
        wh_sim_options more = sim;
        more.n_sms = 7;
        s = wh_device_open(&r.peer, "sim", &more);
    }
    s = s == WH_OK && w->allocator != NULL ? make_heap(&r) : s;
    s = s == WH_OK ? make_args(&r) : s;
    s = s == WH_OK ? launch(&r) : s;
    s = s == WH_OK && r.heap != NULL ? check_heap(&r) : s;
    r.found.nulls = w->may_fail ? 0 : r.found.nulls;
    const int wrong =
        s != WH_OK || r.found.lost != 0 || r.found.nulls != 0 || r.found.overlaps != 0;
    if (wrong) {
        fprintf(stderr, "%s seed %u: %s I%u, lost %u, nulls %u, overlaps %u. %s\n", w->name,
                (unsigned)seed, wh_status_name(s), (unsigned)r.report.first_tag, r.found.lost,
                r.found.nulls, r.found.overlaps,
                r.device != NULL ? wh_device_error_text(r.device) : "");
    }
    wh_heap_destroy(r.heap);
    if (r.device != NULL) {
        (void)wh_device_free(r.device, r.memory);
    }
    wh_device_close(r.peer);
    wh_device_close(r.device);
    return wrong;
}
