/* 10_extend.c: a heap that grows when kernels find it full, and gives memory back when they are
 * done; pointers stay as they are. The same file builds for the GPU (nvcc -x cu) and for the
 * simulated device (any C11 compiler). */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/warpheap.h>

#define THREADS 256u
#define BYTES 40000u /* of a node */
#define MIB ((uint64_t)1 << 20)

typedef struct node {
    uint64_t next; /* address of a node, or 0 */
    uint64_t round;
} node;

typedef struct args {
    wh_heap_ref heap;
    uint64_t *heads; /* a list for each thread */
    uint32_t *full;  /* threads that have found no memory */
    uint64_t round;
} args;

/* Each thread whose list has no node of this round puts one in front of it. */
WH_KERNEL(push, args, a) {
    uint64_t *head = &a.heads[wh_thread_id()];
    const node *first = (const node *)(uintptr_t)*head;
    if (first != NULL && first->round == a.round) {
        return;
    }
    node *n = (node *)wh_malloc(a.heap, BYTES);
    if (n == NULL) {
        wh_add_u32_relaxed(a.full, 1);
        return;
    }
    n->next = *head;
    n->round = a.round;
    *head = (uint64_t)(uintptr_t)n;
}

/* Each thread frees its list, which has a node of each round. */
WH_KERNEL(empty, args, a) {
    uint64_t round = a.round;
    for (uint64_t at = a.heads[wh_thread_id()]; at != 0; round--) {
        node *n = (node *)(uintptr_t)at;
        at = n->next;
        wh_add_u32_relaxed(a.full, n->round != round);
        wh_free(a.heap, n);
    }
    wh_add_u32_relaxed(a.full, round != 0);
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

/* How many threads have found no memory, or, of `empty`, a node that is not theirs. */
static uint32_t count(wh_device *device, const args *a) {
    const uint32_t none = 0;
    uint32_t n = 0;
    must(wh_device_copy_out(device, &n, a->full, sizeof n));
    must(wh_device_copy_in(device, a->full, &none, sizeof none));
    return n;
}

/* Kernels that found the heap full are run again with a larger one. */
/* [docs extend */
static void run(wh_device *device, wh_heap *heap, args *a) {
    const wh_launch launch = wh_grid(device, 2, THREADS / 2);
    must(push(&launch, a));
    for (uint32_t n; (n = count(device, a)) != 0;) {
        must(wh_heap_extend(heap, (uint64_t)n * BYTES));
        must(push(&launch, a)); /* what there is stays where it is */
    }
}
/* docs] */

int main(int argc, char **argv) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    args a = {0};
    void *heads = NULL, *full = NULL;
    uint64_t most = 0, given = 0;
    must(wh_device_open(&device, argc > 1 ? argv[1] : "auto", NULL));
    options.device = device;
    options.bytes = 24 * MIB;          /* memory to begin with */
    options.reserve_bytes = 512 * MIB; /* addresses for more */
    must(wh_heap_create(&heap, &options));
    must(wh_heap_handle(heap, &a.heap));
    must(wh_device_alloc(device, &heads, THREADS * sizeof *a.heads));
    must(wh_device_set(device, heads, 0, THREADS * sizeof *a.heads));
    must(wh_device_alloc(device, &full, sizeof *a.full));
    must(wh_device_set(device, full, 0, sizeof *a.full));
    a.heads = (uint64_t *)heads;
    a.full = (uint32_t *)full;
    for (a.round = 1; a.round <= 4; a.round++) {
        run(device, heap, &a);
    }
    a.round--;
    must(wh_heap_extent(heap, &most, NULL, NULL));
    const wh_launch launch = wh_grid(device, 2, THREADS / 2);
    must(empty(&launch, &a));
    const uint32_t wrong = count(device, &a);
    must(wh_heap_trim(heap, options.bytes, &given));
    printf("%s: %u MiB mapped, %u given back\n", wrong == 0 ? "lists right" : "lists damaged",
           (unsigned)(most / MIB), (unsigned)(given / MIB));
    must(wh_device_free(device, heads));
    must(wh_device_free(device, full));
    wh_heap_destroy(heap);
    wh_device_close(device);
    return wrong == 0 && most > 4 * THREADS * BYTES && given > most / 3 ? 0 : 1;
}
