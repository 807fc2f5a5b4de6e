/* 12_gauge.c: how full a heap is, while kernels use it: a list of blocks in each thread grows and
 * shrinks, and a gauge publishes to a file.
 *
 *     12_gauge [DEVICE [FILE [SECONDS]]]
 *
 * In another terminal: warpheap top FILE. Without words: a fifth of a second, to 12_gauge.gauge. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <warpheap/gauge.h>
#include <warpheap/warpheap.h>

#define THREADS 1024u
#define STEPS 24u /* lists grow for so many kernels, and shrink again */

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

typedef struct node {
    struct node *next;
    uint64_t data[1];
} node;

typedef struct args {
    wh_heap_ref heap;
    node **lists;
    uint32_t grows, turn;
} args;

/* Four nodes more, or four less. */
WH_KERNEL(step, args, a) {
    node **list = &a.lists[wh_thread_id()];
    for (uint32_t k = 0; k < 4; k++) {
        if (a.grows) {
            const uint64_t words = 1 + (wh_thread_id() + a.turn * 7 + k) % 60;
            node *n = (node *)wh_malloc(a.heap, sizeof(node *) + words * sizeof(uint64_t));
            if (n != NULL) {
                n->next = *list;
                *list = n;
            }
        } else if (*list != NULL) {
            node *n = *list;
            *list = n->next;
            wh_free(a.heap, n);
        }
    }
}

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    const char *path = argc > 2 ? argv[2] : "12_gauge.gauge";
    const double length = argc > 3 ? strtod(argv[3], NULL) : 0.2;
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    args a = {0};
    must(wh_device_open(&device, argc > 1 ? argv[1] : "auto", NULL));
    options.device = device;
    options.bytes = 32 << 20;
    must(wh_heap_create(&heap, &options));
    must(wh_heap_handle(heap, &a.heap));
    must(wh_device_alloc(device, (void **)&a.lists, THREADS * sizeof(node *)));
    must(wh_device_set(device, a.lists, 0, THREADS * sizeof(node *)));
    const wh_launch launch = wh_grid(device, THREADS / 256, 256);
    const double end = seconds() + length;

    /* [gauge publish */
    wh_gauge *gauge = NULL;
    must(wh_gauge_open(&gauge, heap));
    must(wh_gauge_publish(gauge, path, WH_GAUGE_BLOCKS, 50)); /* every 50 ms, by a thread */
    /* gauge] */
    while (seconds() < end || a.turn % (2 * STEPS) != 0) {
        a.grows = a.turn / STEPS % 2 == 0;
        must(step(&launch, &a));
        must(wh_device_sync(device));
        a.turn++;
    }

    /* [gauge read */
    wh_gauge_sample sample;
    must(wh_gauge_read(gauge, WH_GAUGE_BLOCKS, &sample));
    printf("%llu bytes in %llu blocks; %llu mallocs failed\n",
           (unsigned long long)sample.used_bytes, (unsigned long long)sample.live_blocks,
           (unsigned long long)sample.failed);
    must(wh_gauge_close(gauge)); /* before the heap */
    /* gauge] */
    must(wh_heap_destroy(heap));
    must(wh_device_free(device, a.lists));
    wh_device_close(device);
    return sample.live_blocks == 0 && sample.failed == 0 ? 0 : 1;
}
