/* 01_malloc_free.c: every thread allocates a list whose length is known only in the
 * kernel, uses it and frees it. The same file builds for the GPU (nvcc -x cu) and for
 * the simulated device (any C11 compiler). README.md shows the part between the marks. */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/types.h>

static void must(wh_status status);

/* [readme */
#include <warpheap/warpheap.h>

typedef struct args {
    wh_heap_ref heap;
    uint64_t *sums;
} args;

WH_KERNEL(sum_list, args, a) {
    const uint64_t i = wh_thread_id(), n = i % 100 + 1;
    uint64_t *list = (uint64_t *)wh_malloc(a.heap, n * sizeof *list);
    for (uint64_t k = 0; list != NULL && k < n; k++) {
        list[k] = k;
        a.sums[i] += list[k];
    }
    wh_free(a.heap, list);
}

static void run(wh_device *device, wh_heap *heap, uint64_t *sums) {
    args a;
    a.sums = sums;
    must(wh_heap_handle(heap, &a.heap));
    const wh_launch launch = wh_grid(device, 4, 256); /* 4 blocks of 256 threads */
    must(sum_list(&launch, &a));
}
/* readme] */

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_status_text(status));
        exit(1);
    }
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *sums = NULL;
    uint64_t host[1024] = {0};
    wh_heap_options options = {0};
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    options.bytes = 64 << 20;
    options.device = device;
    must(wh_heap_create(&heap, &options));
    must(wh_device_alloc(device, &sums, sizeof host));
    must(wh_device_set(device, sums, 0, sizeof host));
    run(device, heap, (uint64_t *)sums);
    must(wh_device_copy_out(device, host, sums, sizeof host));
    must(wh_heap_check(heap, NULL));
    must(wh_device_free(device, sums));
    wh_heap_destroy(heap);
    wh_device_close(device);
    printf("0 + 1 + ... + 99 = %u\n", (unsigned)host[99]);
    return host[99] == 4950 ? 0 : 1;
}
