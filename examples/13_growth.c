/* 13_growth.c: a heap that gets more memory while a kernel runs: each thread makes a list of nodes,
 * in one launch, longer than the heap is at first. The same file builds for the GPU (nvcc -x cu)
 * and for the simulated device (any C11 compiler). */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/warpheap.h>

#define THREADS 256u
#define NODES 50u
#define BYTES 10000u /* of a node */
#define MIB ((uint64_t)1 << 20)

typedef struct args {
    wh_heap_ref heap;
    uint64_t *heads; /* a list for each thread: addresses */
    uint32_t *nulls;
} args;

WH_KERNEL(push, args, a) {
    uint64_t *head = &a.heads[wh_thread_id()];
    for (uint64_t k = 0; k < NODES; k++) {
        uint64_t *node = (uint64_t *)wh_malloc(a.heap, BYTES);
        if (node == NULL) { /* max_bytes, or the device, has no more; or the host was late */
            wh_add_u32_relaxed(a.nulls, 1);
            return;
        }
        node[0] = *head;
        node[1] = k;
        *head = (uint64_t)(uintptr_t)node;
    }
}

/* Frees the lists; what is no node of its own counts. */
WH_KERNEL(empty, args, a) {
    uint64_t k = NODES;
    for (uint64_t at = a.heads[wh_thread_id()]; at != 0;) {
        uint64_t *node = (uint64_t *)(uintptr_t)at;
        at = node[0];
        k--;
        wh_add_u32_relaxed(a.nulls, node[1] != k);
        wh_free(a.heap, node);
    }
    wh_add_u32_relaxed(a.nulls, k != 0);
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

/* [docs growth */
static wh_heap *make_heap(wh_device *device) {
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    options.device = device;
    options.bytes = 24 * MIB;          /* memory to begin with */
    options.reserve_bytes = 512 * MIB; /* addresses for more */
    must(wh_heap_create(&heap, &options));
    /* [reserve start */
    wh_growth_options growth = {0};
    growth.max_bytes = 384 * MIB;  /* never more than this */
    growth.ahead_bytes = 32 * MIB; /* this much before anybody asks */
    growth.step_bytes = 16 * MIB;
    growth.wait_us = 1000000;
    must(wh_heap_growth_start(heap, &growth)); /* a thread of the library looks after the heap */
    /* reserve] */
    return heap;
}
/* docs] */

int main(int argc, char **argv) {
    wh_device *device = NULL;
    args a = {0};
    void *heads = NULL, *nulls = NULL;
    uint32_t n = 0;
    uint64_t mapped = 0, given = 0;
    must(wh_device_open(&device, argc > 1 ? argv[1] : "auto", NULL));
    wh_heap *heap = make_heap(device);
    must(wh_heap_handle(heap, &a.heap));
    must(wh_device_alloc(device, &heads, THREADS * sizeof *a.heads));
    must(wh_device_set(device, heads, 0, THREADS * sizeof *a.heads));
    must(wh_device_alloc(device, &nulls, sizeof *a.nulls));
    must(wh_device_set(device, nulls, 0, sizeof *a.nulls));
    a.heads = (uint64_t *)heads;
    a.nulls = (uint32_t *)nulls;
    const wh_launch launch = wh_grid(device, 2, THREADS / 2);
    must(push(&launch, &a)); /* 122 MiB, of 24 */
    must(empty(&launch, &a));
    must(wh_device_copy_out(device, &n, nulls, sizeof n));
    /* [reserve stop */
    must(wh_heap_growth_stop(heap)); /* what was ahead, and not taken, goes back to the device */
    must(wh_heap_extent(heap, &mapped, NULL, NULL));
    must(wh_heap_trim(heap, 24 * MIB, &given)); /* and now what is free of blocks */
    /* reserve] */
    printf("%s: %u MiB mapped, %u given back\n", n == 0 ? "lists right" : "lists damaged",
           (unsigned)(mapped / MIB), (unsigned)(given / MIB));
    must(wh_device_free(device, heads));
    must(wh_device_free(device, nulls));
    wh_heap_destroy(heap);
    wh_device_close(device);
    return n == 0 && mapped > (uint64_t)NODES * THREADS * BYTES && given > mapped / 2 ? 0 : 1;
}
