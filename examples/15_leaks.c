/* 15_leaks.c: a program whose rounds of kernels leak a little memory each, and which says itself
 * where; with two names of files it also saves a snapshot before and after.
 *
 *     15_leaks [DEVICE [BEFORE.json AFTER.json]]
 *     warpheap diff BEFORE.json AFTER.json
 *     warpheap view AFTER.json --since BEFORE.json -o heap.html */

#define WH_CHECKED 1 /* on a GPU: these kernels can use a checked heap */
#define WH_SITES 1   /* every call says where it stands */
#include <warpheap/options.h>
#include <warpheap/snapshot.h>
#include <warpheap/warpheap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

#define THREADS 256u

typedef struct item {
    struct item *next;
    uint32_t key, sum;
} item;

typedef struct args {
    wh_heap_ref heap;
    item **lists; /* of each thread */
    uint32_t *leak_line;
} args;

/* Each thread puts an item in front of its list, which stays. */
WH_KERNEL(fill, args, a) {
    const uint64_t t = wh_thread_id();
    item *i = (item *)wh_malloc(a.heap, sizeof *i);
    if (i != NULL) {
        i->next = a.lists[t];
        i->key = (uint32_t)t;
        i->sum = 0;
        a.lists[t] = i;
    }
}

/* Each thread works on its list, with memory of its own for a while. */
WH_KERNEL(work, args, a) {
    item *i = a.lists[wh_thread_id()];
    uint32_t *room = (uint32_t *)wh_malloc(a.heap, 10 * sizeof *room);
    if (wh_thread_id() == 0) {
        *a.leak_line = __LINE__ - 2;
    }
    if (i == NULL || room == NULL) {
        wh_free(a.heap, room);
        return;
    }
    for (uint32_t k = 0; k < 10; k++) {
        room[k] = i->key * k;
    }
    if (i->key % 16 == 5) { /* the mistake: nobody frees the room of these */
        return;
    }
    i->sum += room[9];
    wh_free(a.heap, room);
}

static void save(wh_heap *heap, const char *path) {
    if (path != NULL) {
        must(wh_heap_snapshot_save(heap, path));
    }
}

/* Whether the first line of the report names the mistake. */
static int report(wh_heap *heap, uint64_t mark, uint32_t leak_line) {
    /* [leaks report */
    wh_leak leaks[10];
    uint32_t n;
    must(wh_heap_leaks(heap, mark, leaks, sizeof leaks[0], 10, &n));
    for (uint32_t i = 0; i < n && i < 10; i++) {
        char text[300];
        puts(wh_leak_text(&leaks[i], text, sizeof text));
    }
    /* leaks] */
    return n == 1 && leaks[0].site.line == leak_line && leaks[0].blocks == 8 * THREADS / 16;
}

int main(int argc, char **argv) {
    wh_device *device;
    wh_heap *heap;
    args a;
    must(wh_device_open(&device, argc > 1 ? argv[1] : WH_TARGET_NAME, NULL));
    wh_tessera_options tessera = WH_TESSERA_OPTIONS;
    tessera.checked = 1;
    wh_heap_options options = {0};
    options.bytes = (uint64_t)16 << 20;
    options.device = device;
    options.options = &tessera.head;
    must(wh_heap_create(&heap, &options));
    memset(&a, 0, sizeof a);
    must(wh_heap_handle(heap, &a.heap));
    void *p, *q;
    must(wh_device_alloc(device, &p, THREADS * sizeof *a.lists));
    must(wh_device_set(device, p, 0, THREADS * sizeof *a.lists));
    must(wh_device_alloc(device, &q, sizeof *a.leak_line));
    a.lists = (item **)p;
    a.leak_line = (uint32_t *)q;
    const wh_launch launch = wh_grid(device, 2, THREADS / 2);
    must(fill(&launch, &a));

    save(heap, argc > 3 ? argv[2] : NULL);
    /* [leaks mark */
    uint64_t mark;
    must(wh_heap_mark(heap, &mark));
    for (uint32_t round = 0; round < 8; round++) {
        must(work(&launch, &a));
    }
    /* leaks] */
    save(heap, argc > 3 ? argv[3] : NULL);

    uint32_t line;
    must(wh_device_copy_out(device, &line, a.leak_line, sizeof line));
    const int found = report(heap, mark, line);
    must(wh_heap_destroy(heap));
    must(wh_device_free(device, p));
    must(wh_device_free(device, q));
    wh_device_close(device);
    return found ? 0 : 1;
}
