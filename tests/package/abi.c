/* abi.c: a program whose kernel knows the heap by one word and calls functions that are linked, on
 * the simulated device; C and C++. */
#include <stdio.h>
#include <warpheap/warpheap.h>
#include <warpheap/warpheap_abi.h>

typedef struct args {
    wh_abi1_heap heap;
    uint32_t *served;
} args;

WH_KERNEL(serve, args, a) {
    int *p = (int *)wh_abi1_malloc(a.heap, 40);
    if (p != NULL) {
        p[0] = 1;
        wh_add_u32_relaxed(a.served, wh_abi1_free(a.heap, p) == 0);
    }
}

static int must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s: %s\n", wh_status_name(status), wh_last_error_text());
    }
    return status == WH_OK;
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    args a = {0};
    uint32_t served = 0;
    int ok = must(wh_device_open(&device, "sim", NULL));
    o.device = device;
    o.bytes = 1 << 20;
    ok = ok && must(wh_heap_create(&heap, &o)) && must(wh_heap_abi1_handle(heap, &a.heap));
    ok = ok && must(wh_device_alloc(device, (void **)&a.served, sizeof served)) &&
         must(wh_device_set(device, a.served, 0, sizeof served));
    if (ok) {
        const wh_launch launch = wh_grid(device, 2, 64);
        ok = must(serve(&launch, &a)) &&
             must(wh_device_copy_out(device, &served, a.served, sizeof served));
    }
    ok = must(wh_heap_destroy(heap)) && ok;
    ok = ok && wh_abi1_malloc(a.heap, 40) == NULL && wh_abi1_fits(a.heap) == 0; /* it is gone */
    ok = must(wh_device_free(device, a.served)) && ok;
    wh_device_close(device);
    printf("%u of 128 threads served\n", served);
    return ok && served == 128 ? 0 : 1;
}
