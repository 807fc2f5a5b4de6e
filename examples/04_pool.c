/* 04_pool.c: a hash table of linked lists whose nodes all have one size: they come from a pool. The
 * same file builds for the GPU (nvcc -x cu) and for the simulated device (any C11 compiler). */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/warpheap.h>

#define BUCKETS 64u
#define KEYS 1024u

typedef struct node {
    uint64_t next; /* address of a node, or 0 */
    uint64_t key;
} node;

typedef struct args {
    wh_pool_t pool; /* of nodes */
    uint64_t *buckets;
    uint64_t *sums;
} args;

/* Thread i puts key i in front of the list of its bucket. */
WH_KERNEL(insert, args, a) {
    const uint64_t i = wh_thread_id();
    uint64_t *bucket = &a.buckets[i * 7 % BUCKETS];
    node *n = (node *)wh_pool_malloc(a.pool);
    if (n == NULL) { /* the heap is full */
        return;
    }
    n->key = i;
    n->next = wh_load_u64_relaxed(bucket);
    for (;;) { /* release: who sees the node sees its key */
        const uint64_t seen = wh_cas_u64_release(bucket, n->next, (uint64_t)(uintptr_t)n);
        if (seen == n->next) {
            return;
        }
        n->next = seen;
    }
}

/* Thread i adds the list of bucket i up, and frees it. */
WH_KERNEL(empty, args, a) {
    const uint64_t i = wh_thread_id();
    for (uint64_t at = a.buckets[i]; at != 0;) {
        node *n = (node *)(uintptr_t)at;
        at = n->next;
        a.sums[i] += n->key;
        wh_pool_free(a.pool, n);
    }
    a.buckets[i] = 0;
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_status_text(status));
        exit(1);
    }
}

static uint64_t *take(wh_device *device) {
    void *p = NULL;
    must(wh_device_alloc(device, &p, BUCKETS * sizeof(uint64_t)));
    must(wh_device_set(device, p, 0, BUCKETS * sizeof(uint64_t)));
    return (uint64_t *)p;
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    uint64_t sums[BUCKETS], all = 0;
    args a;
    wh_heap_options options = {0};
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    options.bytes = 64 << 20;
    options.device = device;
    must(wh_heap_create(&heap, &options));
    must(wh_pool_make(heap, sizeof(node), &a.pool));
    a.buckets = take(device);
    a.sums = take(device);
    const wh_launch threads = wh_grid(device, KEYS / 256, 256),
                    one_each = wh_grid(device, 1, BUCKETS);
    must(insert(&threads, &a));
    must(empty(&one_each, &a));
    must(wh_device_copy_out(device, sums, a.sums, sizeof sums));
    for (uint32_t i = 0; i < BUCKETS; i++) {
        all += sums[i];
    }
    must(wh_heap_check(heap, NULL));
    must(wh_device_free(device, a.buckets));
    must(wh_device_free(device, a.sums));
    wh_heap_destroy(heap);
    wh_device_close(device);
    printf("0 + 1 + ... + %u = %u\n", KEYS - 1, (unsigned)all);
    return all == (uint64_t)KEYS * (KEYS - 1) / 2 ? 0 : 1;
}
