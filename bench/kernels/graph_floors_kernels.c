/* graph_floors_kernels.c: targeted source: see graph_floors.h. */
#include "bench/kernels/graph_floors.h"

#ifndef WH_KERNEL_THREADS
#define WH_KERNEL_THREADS 256
#endif

#include <string.h>

#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

WH_KERNEL(k_append, wh_bench_floor_call, c) {
    const uint64_t i = wh_thread_id();
    if (i < c.n) {
        const uint64_t v = c.from[i];
        const uint32_t at = wh_fetch_add_u32_relaxed(&c.counts[v], 1) % WH_BENCH_STRIP;
        c.strips[v * WH_BENCH_STRIP + at] = c.to[i];
    }
}

WH_KERNEL(k_copy, wh_bench_floor_call, c) {
    const uint64_t i = wh_thread_id();
    if (i < c.n) {
        c.copy[i] = c.words[i];
    }
}

WH_KERNEL(k_pull_lane, wh_bench_floor_call, c) {
    const uint64_t v = wh_thread_id();
    if (v < c.n) {
        const uint64_t end = c.offset[v + 1];
        float sum = 0;
        for (uint64_t i = c.offset[v]; i < end; i++) {
            sum += c.share[c.arcs[i]];
        }
        c.rank[v] = c.rest + c.damping * sum;
    }
}

WH_FN float warp_sum(float v) {
    for (uint32_t apart = 1; apart < WH_WARP_SIZE; apart *= 2) {
        uint32_t bits = 0;
        float other = 0;
        memcpy(&bits, &v, sizeof bits);
        bits = wh_shfl_u32(WH_FULL_WARP, bits, wh_lane_id() ^ apart);
        memcpy(&other, &bits, sizeof other);
        v += other;
    }
    return v;
}

WH_KERNEL(k_pull_warp, wh_bench_floor_call, c) {
    const uint64_t v = wh_thread_id() / WH_WARP_SIZE;
    float sum = 0;
    if (v < c.n) {
        const uint64_t end = c.offset[v + 1];
        for (uint64_t i = c.offset[v] + wh_lane_id(); i < end; i += WH_WARP_SIZE) {
            sum += c.share[c.arcs[i]];
        }
    }
    sum = warp_sum(sum);
    if (v < c.n && wh_lane_id() == 0) {
        c.rank[v] = c.rest + c.damping * sum;
    }
}

#define LAUNCHER(name)                                                                         \
    static wh_status launch_##name(const wh_launch *launch, const wh_bench_floor_call *call) { \
        return k_##name(launch, call);                                                         \
    }

LAUNCHER(append)
LAUNCHER(copy)
LAUNCHER(pull_lane)
LAUNCHER(pull_warp)

WH_TABLE(wh_bench_floors) = {WH_OF_(NAME), launch_append, launch_copy, launch_pull_lane,
                             launch_pull_warp};
