/* lists.c: a program of warpheap 0.1: run.sh applies migrate.sed to it, compiles and runs it. */
#include <string.h>
#include <warpheap/warpheap.h>
#include <warpheap/alloc/bump/bump.h>
#include <warpheap/core/group.h>
#include <warpheap/core/kth_bit.h>
#include <warpheap/core/sizeclass.h>
#include <warpheap/simt/simt.h>

typedef struct args {
    wh_heap_t heap;
    wh_bump_t scratch;
    uint64_t *sums;
    uint32_t *warps;
} args;

WH_KERNEL(sum_list, args, a) {
    const uint64_t i = wh_thread_id(), n = i % 100 + 1;
    const wh_mask_t mask = wh_activemask();
    uint64_t *list = (uint64_t *)wh_malloc(a.heap, n * sizeof *list);
    uint64_t *copy = list;
    if (a.scratch.offset != NULL) {
        copy = (uint64_t *)wh_bump_malloc(a.scratch, mask, n * sizeof *list);
    }
    for (uint64_t k = 0; list != NULL && copy != NULL && k < n; k++) {
        list[k] = copy[k] = k;
        a.sums[i] += copy[k];
    }
    wh_free(a.heap, list);
    wh_syncwarp(0xffffffff);
    const wh_group same = wh_group_by_u32(0xffffffff, wh_pow2_class(n, 3));
    if (wh_group_leads(same) && wh_kth_bit32(same.lanes, 1) == wh_lane_id()) {
        wh_add_u32_relaxed(a.warps, same.n);
    }
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL, *scratch = NULL;
    void *sums = NULL, *warps = NULL;
    uint64_t host[256] = {0};
    uint32_t lanes = 0;
    wh_stats stats;
    args a;
    wh_heap_options options = {0};
    int bad = wh_device_open(&device, WH_TARGET_NAME, NULL) != WH_OK;
    options.device = device;
    options.bytes = 64 << 20;
    options.tuning.track_peak = 1;
    options.tuning.track_totals = 1;
    bad |= bad || wh_heap_create(&heap, &options) != WH_OK;
    wh_heap_options other = {0};
    other.device = device;
    other.bytes = 64 << 20;
    other.allocator = "bump";
    bad |= bad || wh_heap_handle(heap, &a.heap) != WH_OK;
    memset(&a.scratch, 0, sizeof a.scratch);
    if (wh_allocator_find("bump") != NULL) { /* it may not be built in */
        bad |= bad || wh_heap_create(&scratch, &other) != WH_OK;
        bad |= bad || wh_heap_handle_of(scratch, "bump", wh_bump_layout(), &a.scratch,
                                        sizeof a.scratch) != WH_OK;
    }
    bad |= bad || wh_device_alloc(device, &sums, sizeof host) != WH_OK;
    bad |= bad || wh_device_alloc(device, &warps, sizeof lanes) != WH_OK;
    bad |= bad || wh_device_set(device, sums, 0, sizeof host) != WH_OK;
    bad |= bad || wh_device_set(device, warps, 0, sizeof lanes) != WH_OK;
    a.sums = (uint64_t *)sums;
    a.warps = (uint32_t *)warps;
    const wh_launch launch = wh_grid(device, 2, 128);
    bad |= bad || sum_list(&launch, &a) != WH_OK;
    bad |= bad || wh_device_copy_out(device, host, sums, sizeof host) != WH_OK;
    bad |= bad || wh_device_copy_out(device, &lanes, warps, sizeof lanes) != WH_OK;
    bad |= bad || wh_heap_get_stats(heap, &stats) != WH_OK || stats.mallocs != 256;
    bad |= bad || wh_heap_check(heap, NULL) != WH_OK || host[99] != 4950 || lanes != 256;
    wh_heap_destroy(heap);
    wh_heap_destroy(scratch);
    wh_device_close(device);
    return bad;
}
