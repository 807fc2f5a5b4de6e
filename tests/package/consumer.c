/* consumer.c: a user's program, built by each of the ways that the library can be
 * used: kernels of its own on the simulated device, host calls from the library. */
#include <stdio.h>
#include <warpheap/warpheap.h>

enum { THREADS = 64, BLOCKS = 4 };

typedef struct {
    wh_heap_t heap;
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

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *served = NULL;
    uint32_t count = 0;
    wh_heap_options options = {.bytes = (uint64_t)64 << 20};
    args a = {0};

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
        const wh_launch launch = {.device = device, .blocks = BLOCKS, .threads = THREADS};
        a.served = (uint32_t *)served;
        s = work(&launch, &a);
    }
    if (s == WH_OK) {
        s = wh_device_sync(device);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(device, &count, served, sizeof count);
    }
    printf("%s: %u of %d threads served\n", wh_status_name(s), count, BLOCKS * THREADS);
    wh_heap_destroy(heap);
    if (device != NULL) {
        (void)wh_device_free(device, served);
        wh_device_close(device);
    }
    return s == WH_OK && count == BLOCKS * THREADS ? 0 : 1;
}
