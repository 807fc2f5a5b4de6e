/* consumer.c: a user's program, built by each of the ways that the library can be
 * used: kernels of its own on the simulated device, host calls from the library.
 * In the common subset of C11 and C++. */
#include <stdio.h>
#include <warpheap/warpheap.h>

enum { THREADS = 64, BLOCKS = 4 };

typedef struct {
    wh_heap_ref heap;
    uint32_t *served;
} args;

WH_KERNEL(work, args, a) {
    const uint64_t me = wh_thread_id();
    uint64_t *p = (uint64_t *)wh_malloc(a.heap, 48);
    if (p != NULL) {
        p[0] = me;
        wh_backoff(0);
        if (p[0] == me) {
            wh_add_u32_relaxed(a.served, 1);
        }
    }
    wh_free(a.heap, p);
}

/* What is not built in is an unknown allocator, not an error of the build. */
static int only_default(wh_device *device) {
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    options.bytes = (uint64_t)64 << 20;
    options.device = device;
    options.allocator = "bump";
    return wh_allocator_at(0) == wh_allocator_find(NULL) && wh_allocator_at(1) == NULL &&
           wh_allocator_find("bump") == NULL &&
           wh_heap_create(&heap, &options) == WH_UNKNOWN_ALLOCATOR;
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *served = NULL;
    uint32_t count = 0;
    wh_heap_options options = {0};
    args a = {{0}};
    int right = 1;

    options.bytes = (uint64_t)64 << 20;
    wh_status s = wh_device_open(&device, "sim", NULL);
    if (s == WH_OK) {
        options.device = device;
        s = wh_heap_create(&heap, &options);
    }
    if (s == WH_OK) {
        s = wh_heap_handle(heap, &a.heap);
    }
    if (s == WH_OK) {
        s = wh_device_alloc(device, &served, sizeof count);
    }
    if (s == WH_OK) {
        s = wh_device_set(device, served, 0, sizeof count);
    }
    if (s == WH_OK) {
        const wh_launch launch = {device, BLOCKS, THREADS, NULL};
        a.served = (uint32_t *)served;
        s = work(&launch, &a);
    }
    if (s == WH_OK) {
        s = wh_device_sync(device);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(device, &count, served, sizeof count);
    }
#ifdef ONLY_DEFAULT_ALLOCATOR
    right = s == WH_OK && only_default(device);
    printf("others than the default allocator: %s\n", right ? "none" : "some");
#else
    (void)only_default;
#endif
    printf("%s: %u of %d threads served\n", wh_status_name(s), count, BLOCKS * THREADS);
    wh_heap_destroy(heap);
    if (device != NULL) {
        (void)wh_device_free(device, served);
        wh_device_close(device);
    }
    return s == WH_OK && count == BLOCKS * THREADS && right ? 0 : 1;
}
