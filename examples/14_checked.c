/* 14_checked.c: a kernel with mistakes, over a checked heap, which says what they are and where;
 * and over a heap that is too small, which says what it had no room for.
 *
 *     14_checked [DEVICE] */

/* [checked sites */
#define WH_CHECKED 1 /* on a GPU: these kernels can use a checked heap */
#define WH_SITES 1   /* every call says where it stands */
#include <warpheap/options.h>
#include <warpheap/records.h>
#include <warpheap/warpheap.h>
/* checked] */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n%s\n", wh_status_text(status), wh_last_error_text());
        exit(1);
    }
}

typedef struct args {
    wh_heap_ref heap;
    uint32_t *sum;
} args;

WH_KERNEL(work, args, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    uint32_t *p = (uint32_t *)wh_malloc(a.heap, 10 * sizeof *p);
    if (p == NULL) {
        return;
    }
    for (uint32_t k = 0; k < 10 + (i == 5); k++) { /* one thread goes too far */
        p[k] = k;
    }
    wh_free(a.heap, p);
    if (i == 7) {
        wh_free(a.heap, p);
    }
    if (i == 9) {
        p[2] = 1;
    }
    if (i == 11) {
        (void)wh_malloc(a.heap, 100); /* nobody frees this one */
    }
}

typedef struct fill_args {
    wh_heap_ref heap;
} fill_args;

WH_KERNEL(fill, fill_args, a) {
    for (uint32_t i = 0; i < 100 && wh_malloc(a.heap, 20000) != NULL; i++) {
    }
}

static uint32_t check(wh_device *device) {
    wh_heap *heap;
    /* [checked heap */
    wh_tessera_options tessera = WH_TESSERA_OPTIONS;
    tessera.checked = 1;
    wh_heap_options options = {0};
    options.bytes = (uint64_t)16 << 20;
    options.device = device;
    options.options = &tessera.head;
    must(wh_heap_create(&heap, &options));
    /* checked] */
    args a;
    must(wh_heap_handle(heap, &a.heap));
    wh_launch launch = wh_grid(device, 1, 64);
    must(work(&launch, &a));
    uint32_t n = 0;
    /* [checked read */
    must(wh_heap_check_blocks(heap, 1, NULL)); /* 1: leaks, too */
    wh_record records[16];
    must(wh_heap_violations(heap, records, sizeof records[0], 16, &n));
    for (uint32_t i = 0; i < n; i++) {
        char text[400];
        puts(wh_record_text(&records[i], text, sizeof text));
    }
    /* checked] */
    must(wh_heap_destroy(heap));
    return n;
}

static uint32_t run_out(wh_device *device) {
    wh_heap *heap;
    uint32_t n = 0;
    /* [checked failures */
    wh_tessera_options tessera = WH_TESSERA_OPTIONS;
    tessera.failure_records = 16;
    /* checked] */
    wh_heap_options options = {0};
    options.bytes = (uint64_t)1 << 20;
    options.device = device;
    options.options = &tessera.head;
    must(wh_heap_create(&heap, &options));
    fill_args a;
    must(wh_heap_handle(heap, &a.heap));
    wh_launch launch = wh_grid(device, 1, 1);
    must(fill(&launch, &a));
    /* [checked reasons */
    wh_record failure;
    must(wh_heap_failures(heap, &failure, sizeof failure, 1, &n));
    if (n != 0) {
        char text[400];
        printf("%s\n%s\n", wh_status_text(wh_record_status(failure.kind)),
               wh_record_text(&failure, text, sizeof text));
    }
    /* checked] */
    must(wh_heap_destroy(heap));
    return n;
}

int main(int argc, char **argv) {
    wh_device *device;
    must(wh_device_open(&device, argc > 1 ? argv[1] : WH_TARGET_NAME, NULL));
    const uint32_t violations = check(device), failures = run_out(device);
    wh_device_close(device);
    return violations == 4 && failures == 1 ? 0 : 1;
}
