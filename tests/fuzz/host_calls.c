/* host_calls.c: a default heap on a simulated device, with options from the first bytes, and then a
 * call of the host for each further three: what it is, and a number. Between them kernels allocate
 * and free. Whatever comes, the heap is sound, and a call that fails leaves it as it was. */
#define WH_ALLOCATOR tessera

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "warpheap/checkpoint.h"
#include "warpheap/warpheap.h"

#define LANES 32u

typedef struct play_args {
    wh_heap_ref heap;
    void **p;
    uint64_t bytes;
} play_args;

/* Each lane has a block, or none: it frees it, and takes another one. */
WH_KERNEL(play, play_args, a) {
    void **p = &a.p[wh_lane_id()];
    wh_free(a.heap, *p);
    *p = a.bytes != 0 ? wh_malloc(a.heap, a.bytes + wh_lane_id()) : NULL;
}

typedef struct player {
    wh_device *device;
    wh_heap *heap;
    void **p;
    char path[64];
} player;

static int make(player *x, const uint8_t *o) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options options;
    memset(&options, 0, sizeof options);
    options.device = x->device;
    options.options = &own.head;
    options.bytes = (uint64_t)(o[0] & 63) << 16 | (uint64_t)o[1] << 8;
    own.chunk_bytes = (o[2] & 7) != 0 ? 512u << (o[2] & 7) : 0;
    own.chunk_bytes += (o[2] & 128) != 0; /* no power of two */
    own.shards = o[3] & 3;
    own.track_peak = o[3] >> 2 & 1;
    own.track_totals = o[3] >> 3 & 1;
    own.checked = o[3] >> 4 & 1;
    own.quarantine_bytes = (uint64_t)(o[3] >> 5) << 12;
    own.failure_records = o[4] & 3;
    own.violation_records = o[4] >> 2 & 3;
    own.granule_bytes = (o[4] & 128) != 0 ? (uint64_t)4096 << (o[4] >> 4 & 7) : 0;
    options.reserve_bytes = (uint64_t)(o[5] & 31) << 18;
    const wh_status s = wh_heap_create(&x->heap, &options);
    fuzz_require((s == WH_OK) == (x->heap != NULL), "there is a heap, or an error");
    return s == WH_OK;
}

static void play_once(player *x, uint32_t number) {
    const wh_launch l = {x->device, 1, LANES, NULL};
    play_args a;
    memset(&a, 0, sizeof a);
    if (wh_heap_handle(x->heap, &a.heap) == WH_OK) {
        a.p = x->p;
        a.bytes = number;
        fuzz_require(play(&l, &a) == WH_OK, "a kernel ends");
    }
}

/* The blocks that lanes have are none any more. */
static void forget_blocks(player *x) {
    memset(x->p, 0, LANES * sizeof *x->p);
}

static void save_and_load(player *x) {
    int64_t moved = 0;
    wh_heap_options options;
    memset(&options, 0, sizeof options);
    options.device = x->device;
    if (wh_heap_save(x->heap, x->path) != WH_OK) {
        return;
    }
    wh_heap_destroy(x->heap);
    fuzz_require(wh_heap_load(&x->heap, x->path, &options, &moved) == WH_OK,
                 "what was saved loads");
    for (uint32_t i = 0; i < LANES; i++) {
        x->p[i] = x->p[i] != NULL ? wh_heap_rebase(x->p[i], moved) : NULL;
    }
}

static void call(player *x, uint8_t what, uint32_t number) {
    wh_stats stats;
    wh_growth_options growth;
    uint64_t left = 0, mapped = 0, reserved = 0, granule = 0;
    switch (what % 12) {
    case 0:
        (void)wh_heap_extend(x->heap, (uint64_t)number << 6);
        break;
    case 1:
        (void)wh_heap_trim(x->heap, (uint64_t)number << 6, &left);
        break;
    case 2:
        fuzz_require(wh_heap_reset(x->heap) == WH_OK, "a heap can be reset");
        forget_blocks(x);
        break;
    case 3:
        save_and_load(x);
        break;
    case 4:
        fuzz_require(wh_heap_get_stats(x->heap, &stats) == WH_OK, "there are statistics");
        fuzz_require(stats.bad_frees == 0 && stats.live_blocks <= LANES, "they are right");
        break;
    case 5:
        memset(&growth, 0, sizeof growth);
        growth.no_thread = 1;
        growth.step_bytes = (uint64_t)number << 4;
        growth.wait_us = 1;
        (void)wh_heap_growth_start(x->heap, &growth);
        break;
    case 6:
        (void)wh_heap_growth_poll(x->heap);
        break;
    case 7:
        (void)wh_heap_growth_stop(x->heap);
        break;
    case 8:
        (void)wh_heap_extent(x->heap, &mapped, &reserved, &granule);
        (void)wh_heap_blocks_left(x->heap, number, &left);
        (void)wh_heap_compact(x->heap, NULL);
        break;
    default:
        play_once(x, what % 12 == 9 ? number % 64 : number);
    }
    fuzz_require(wh_heap_check(x->heap, NULL) == WH_OK, "the heap is sound");
}

void fuzz_one(const uint8_t *bytes, size_t n) {
    player x;
    void *p = NULL;
    memset(&x, 0, sizeof x);
    if (n < 6) {
        return;
    }
    (void)snprintf(x.path, sizeof x.path, "/tmp/wh-fuzz-calls-%ld", (long)getpid());
    fuzz_require(wh_device_open(&x.device, "sim", NULL) == WH_OK, "there is a device");
    fuzz_require(wh_device_alloc(x.device, &p, LANES * sizeof *x.p) == WH_OK, "it has memory");
    x.p = p;
    forget_blocks(&x);
    if (make(&x, bytes)) {
        for (size_t i = 6; i + 3 <= n && i < 6 + 3 * 24; i += 3) {
            call(&x, bytes[i], (uint32_t)bytes[i + 1] << 8 | bytes[i + 2]);
        }
        fuzz_require(wh_heap_destroy(x.heap) == WH_OK, "a heap ends without an error");
    }
    (void)unlink(x.path);
    (void)wh_device_free(x.device, p);
    wh_device_close(x.device);
}
