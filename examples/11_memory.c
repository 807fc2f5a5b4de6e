/* 11_memory.c: a heap whose memory comes from two functions of the program's own. Here they take it
 * from the device and keep a list; docs/MEMORY.md has those for RMM, PyTorch and others. */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/warpheap.h>

#define N 1000u

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

/* [memory source */
typedef struct budget {
    wh_device *device;
    uint64_t left; /* bytes that the heap may still have */
} budget;

static void *budget_alloc(uint64_t bytes, uint64_t align, void *stream, void *user) {
    budget *b = (budget *)user;
    void *p = NULL;
    (void)align;  /* wh_device_alloc gives multiples of 256, which is what heaps ask for */
    (void)stream; /* its memory can be used on any stream at once */
    if (bytes > b->left || wh_device_alloc(b->device, &p, bytes) != WH_OK) {
        return NULL;
    }
    b->left -= bytes;
    printf("the heap takes %8llu bytes\n", (unsigned long long)bytes);
    return p;
}

static void budget_free(void *p, uint64_t bytes, void *stream, void *user) {
    budget *b = (budget *)user;
    (void)stream; /* its work is done */
    (void)wh_device_free(b->device, p);
    b->left += bytes;
    printf("the heap gives %8llu bytes back\n", (unsigned long long)bytes);
}
/* memory] */

typedef struct args {
    wh_heap_ref heap;
    uint32_t *given;
} args;

WH_KERNEL(take_and_give, args, a) {
    uint64_t *p = (uint64_t *)wh_malloc(a.heap, 8 + wh_thread_id() % 200);
    if (p != NULL) {
        *p = wh_thread_id();
        wh_add_u32_relaxed(a.given, *p == wh_thread_id());
        wh_free(a.heap, p);
    }
}

int main(int argc, char **argv) {
    budget b = {NULL, 0};
    wh_heap *heap = NULL;
    wh_stats stats;
    uint32_t given = 0;
    args a;
    must(wh_device_open(&b.device, argc > 1 ? argv[1] : "auto", NULL));
    /* [memory create */
    wh_heap_options options = {0};
    options.device = b.device;
    options.bytes = 8 << 20;
    options.source.alloc = budget_alloc;
    options.source.free = budget_free;
    options.source.user = &b;
    b.left = 1 << 20; /* too little: nothing stays behind */
    const wh_status status = wh_heap_create(&heap, &options);
    printf("%s: %s\n", wh_status_name(status), wh_last_error_text());
    b.left = 9 << 20;
    must(wh_heap_create(&heap, &options));
    /* memory] */
    must(wh_heap_handle(heap, &a.heap));
    must(wh_device_alloc(b.device, (void **)&a.given, sizeof given));
    must(wh_device_set(b.device, a.given, 0, sizeof given));
    const wh_launch launch = wh_grid(b.device, N / 200, 200);
    must(take_and_give(&launch, &a));
    must(wh_device_copy_out(b.device, &given, a.given, sizeof given));
    must(wh_heap_get_stats(heap, &stats));
    must(wh_device_free(b.device, a.given));
    must(wh_heap_destroy(heap));
    wh_device_close(b.device);
    const int good = given == N && stats.live_blocks == 0 && b.left == 9 << 20;
    printf("%u blocks; %s\n", (unsigned)given, good ? "all memory is back" : "WRONG");
    return status == WH_OUT_OF_MEMORY && good ? 0 : 1;
}
