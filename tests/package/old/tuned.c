/* tuned.c: a program of warpheap 0.1: run.sh applies migrate.sed to it, compiles and runs it. */
#include <warpheap/warpheap.h>

typedef struct job {
    uint32_t lanes;
    int peak, totals;
} job;

static uint32_t count(uint32_t lanes, uint32_t low) {
    return lanes == low ? 32 : 0;
}

WH_KERNEL(sync_twice, job, a) {
    wh_syncwarp(0xffffffff);
    (void)wh_ballot(0xFFFFFFFF, count(a.lanes, 0xffffffff) != 0);
}

/* Untuned: an object of the same name as a tuned one. */
static wh_status plain(wh_device *device, wh_heap **heap) {
    wh_heap_options o2 = {0};
    o2.device = device;
    o2.bytes = 64 << 20;
    return wh_heap_create(heap, &o2);
}

static wh_status tuned(wh_device *device, const job *j, wh_heap **heap) {
    wh_heap_options o2 = {0};
    wh_heap_options o3 = {0};
    wh_status s;
    o2.device = o3.device = device;
    o2.bytes = o3.bytes = 64 << 20;
    /* clang-format off */
    if (j->peak) o2.tuning.track_peak = 1;
    else o3.tuning.track_peak=0;
    /* clang-format on */
    for (int i = 0; i < j->totals; i++)
        o2.tuning.track_totals = 1;
    s = wh_heap_create(heap, &o3);
    wh_heap_destroy(*heap);
    return s != WH_OK ? s : wh_heap_create(heap, &o2);
}

/* Fields of two families. */
static wh_status mixed(wh_device *device, wh_heap **heap) {
    wh_heap_options o = {0};
    o.device = device;
    o.bytes = 64 << 20;
    o.tuning.track_peak = 1;
    o.tuning.unit_bytes = 64;
    return wh_heap_create(heap, &o);
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    const job all = {0xffffffff, 1, 1};
    const job none = {0xffffffff, 0, 0};
    wh_stats stats;
    int bad = wh_device_open(&device, WH_TARGET_NAME, NULL) != WH_OK;
    const wh_launch launch = wh_grid(device, 1, 32);
    bad |= bad || sync_twice(&launch, &all) != WH_OK;
    for (int i = 0; i < 2; i++) {
        bad |= bad || tuned(device, i == 0 ? &all : &none, &heap) != WH_OK;
        bad |= bad || wh_heap_get_stats(heap, &stats) != WH_OK;
        wh_heap_destroy(heap);
        heap = NULL;
    }
    bad |= bad || plain(device, &heap) != WH_OK;
    wh_heap_destroy(heap);
    bad |= bad || mixed(device, &heap) != WH_BAD_ARGUMENT;
    wh_device_close(device);
    return bad;
}
