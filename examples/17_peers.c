/* 17_peers.c: one device writes messages of any length into its heap; another one reads and frees
 * them meanwhile. Two simulated devices (any C11 compiler), or GPUs 0 and 1 (nvcc -x cu). */
#define WH_PEERS 1 /* before the first include; the simulated device needs no such word */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/warpheap.h>
/* [docs peers_kernels */
#define N 256 /* messages, each by a thread and for a thread */
typedef struct args {
    wh_heap_ref heap;
    uint64_t *boxes; /* N addresses, 0: not there yet, 1: the heap is full; how many came whole */
} args;
WH_KERNEL(produce, args, a) {
    const uint64_t i = wh_thread_id(), words = i % 100 + 1;
    uint64_t *message = (uint64_t *)wh_malloc(a.heap, words * sizeof *message);
    if (message != NULL) {
        message[0] = message[words - 1] = i;
    }
    wh_store_u64_release(&a.boxes[i], message != NULL ? (uint64_t)(uintptr_t)message : 1);
}
WH_KERNEL(consume, args, a) {
    const uint64_t i = wh_thread_id(), words = i % 100 + 1;
    uint64_t address;
    for (uint32_t k = 0; (address = wh_load_u64_acquire(&a.boxes[i])) == 0; k++) {
        wh_backoff(k);
    }
    uint64_t *message = address != 1 ? (uint64_t *)(uintptr_t)address : NULL;
    const int whole = message != NULL && message[0] == i && message[words - 1] == i;
    wh_free(a.heap, message); /* room for the producer, at once */
    wh_add_u64_relaxed(&a.boxes[N], (uint64_t)whole);
}
/* docs] */
static void must(wh_status s) {
    if (s != WH_OK) {
        printf("%s\n%s\n", wh_status_text(s), wh_last_error_text());
        exit(s == WH_NO_PEER_ACCESS || s == WH_NO_PEER_ATOMICS || s == WH_NO_DEVICE ? 77 : 1);
    }
}
int main(void) {
    const int on_gpus = WH_TARGET_NAME[0] == 'c'; /* "cuda", not "sim" */
    wh_device *devices[2];
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    uint64_t whole = 0;
    args a;
    must(wh_device_open(&devices[0], on_gpus ? "cuda:0" : "sim", NULL));
    must(wh_device_open(&devices[1], on_gpus ? "cuda:1" : "sim", NULL));
    options.bytes = 64 << 20;
    options.device = devices[0];
    /* All memory of cudaMalloc is opened with the heap that lies in some of it: the boxes, too. */
    must(wh_device_alloc(devices[0], &options.memory, options.bytes + (N + 1) * sizeof whole));
    a.boxes = (uint64_t *)options.memory + options.bytes / 8;
    must(wh_device_set(devices[0], a.boxes, 0, (N + 1) * sizeof whole));
    must(wh_heap_create(&heap, &options));
    must(wh_heap_enable_peer(heap, devices[1]));
    must(wh_heap_handle(heap, &a.heap)); /* one for the kernels of both */
    for (int i = 0; i < 2; i++) {        /* first the kernel that waits for nobody */
        wh_launch launch = wh_grid(devices[i], 2, N / 2);
        must(wh_stream_create(devices[i], &launch.stream));
        must(i == 0 ? produce(&launch, &a) : consume(&launch, &a));
    }
    must(wh_device_sync(devices[1]));
    must(wh_device_copy_out(devices[0], &whole, a.boxes + N, sizeof whole));
    printf("%u of %u messages came whole\n", (unsigned)whole, (unsigned)N);
    must(wh_heap_destroy(heap));
    must(wh_device_free(devices[0], options.memory));
    wh_device_close(devices[1]);
    wh_device_close(devices[0]);
    return whole == N ? 0 : 1;
}
