/* checked.c: the case checked: warm malloc and free of a checked heap beside those of a plain one.
 *   plain-malloc, plain-free   a plain heap
 *   malloc, free               a checked one, whose quarantine has the default size
 * Repetitions of the two take turns. Allocators without checked heaps have no rows. The case is
 * made whole. */
#include <string.h>

#include "bench/driver/internal.h"
#include "warpheap/options.h"

#define N_WAYS 2u

static const char *const malloc_ops[N_WAYS] = {"plain-malloc", "malloc"};
static const char *const free_ops[N_WAYS] = {"plain-free", "free"};

/* What the case has of one way. */
typedef struct way {
    wh_bench_launcher malloc_single, free_all;
    wh_bench_handle handle;
    whi_bench_series mallocs, frees;
} way;

/* A round of malloc, look at the blocks, free. */
static wh_status round_of(whi_bench_plan *p, way *w, uint32_t what, int timed) {
    whi_bench_series warm;
    wh_bench_counts seen;
    memset(&warm, 0, sizeof warm);
    whi_bench_series *mallocs = timed ? &w->mallocs : &warm;
    whi_bench_series *frees = timed ? &w->frees : &warm;
    p->call.handle = w->handle;
    WHI_BENCH_TRY(whi_bench_time(p, w->malloc_single, p->call.n, mallocs));
    WHI_BENCH_TRY(whi_bench_verify(p, what, &seen));
    mallocs->failed += seen.failed;
    mallocs->bad += seen.bad;
    whi_bench_count(p, &seen, 0);
    return p->broken ? WH_OK : whi_bench_time(p, w->free_all, p->call.n, frees);
}

/* Times over those of the plain heap. */
static wh_status emit(whi_bench_plan *p, const way *plain, const way *its, uint32_t k) {
    whi_bench *b = p->b;
    for (int frees = 0; frees < 2; frees++) {
        const whi_bench_series *series = frees ? &its->frees : &its->mallocs;
        const whi_bench_series *than = frees ? &plain->frees : &plain->mallocs;
        whi_bench_row row = whi_bench_row_of(p, "warm", frees ? free_ops[k] : malloc_ops[k]);
        WHI_BENCH_TRY(whi_bench_floor(p, frees ? b->kernels->floor_free : b->kernels->floor_single,
                                      p->call.n, &row.us_null));
        if (k != 0) {
            whi_bench_add_value(
                &row, "ratio_plain",
                whi_bench_median(series->us, series->n) / whi_bench_median(than->us, than->n), 3);
        }
        WHI_BENCH_TRY(whi_bench_emit(b, &row, series));
    }
    return WH_OK;
}

static wh_status both_ways(whi_bench_plan *p, way *ways) {
    for (uint32_t k = 0; k < N_WAYS && !p->broken; k++) { /* fills the quarantine, too */
        WHI_BENCH_TRY(round_of(p, &ways[k], WHI_BENCH_CONTENTS, 0));
    }
    for (uint32_t i = 0; i < p->b->reps && !p->broken; i++) {
        for (uint32_t k = 0; k < N_WAYS && !p->broken; k++) {
            WHI_BENCH_TRY(round_of(p, &ways[k], i == 0 ? WHI_BENCH_PLACES : 0, 1));
        }
    }
    for (uint32_t k = 0; k < N_WAYS && ways[k].mallocs.n != 0 && ways[k].frees.n != 0; k++) {
        WHI_BENCH_TRY(emit(p, &ways[0], &ways[k], k));
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, const wh_bench_checked_kernels *kernels,
                     whi_bench_blocks blocks) {
    whi_bench_plan p;
    way ways[N_WAYS];
    wh_heap *heap = NULL;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    memset(ways, 0, sizeof ways);
    whi_bench_progress(b, blocks.hi, blocks.n);
    WHI_BENCH_TRY(whi_bench_begin(b, &p, b->heap_bytes, blocks));
    ways[0].malloc_single = b->kernels->malloc_single;
    ways[0].free_all = b->kernels->free_all;
    ways[0].handle = b->handle;
    ways[1].malloc_single = kernels->malloc_single;
    ways[1].free_all = kernels->free_all;
    wh_heap_options o = whi_bench_heap_options(b, b->alloc, b->heap_bytes);
    own.checked = 1;
    o.options = &own.head;
    wh_status s = whi_bench_check(b, wh_heap_create(&heap, &o), "a checked heap");
    s = s == WH_OK ? whi_bench_check(b, kernels->bind(heap, &ways[1].handle), "a checked heap") : s;
    s = s == WH_OK ? both_ways(&p, ways) : s;
    const wh_status last = wh_heap_destroy(heap);
    if (p.broken) {
        whi_bench_close_heap(b);
    }
    return s != WH_OK ? s : whi_bench_check(b, last, "the checked heap");
}

wh_status whi_bench_case_checked(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->first);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    const wh_bench_checked_kernels *kernels =
        wh_bench_checked_find(b->alloc->name, b->info->target);
    if (kernels == NULL) {
        return WH_OK;
    }
    for (size_t i = 0; i < sizes.n; i++) {
        for (size_t k = 0; k < threads.n; k++) {
            /* A checked block takes 95 bytes more, and up to a quarter of all that. */
            const uint64_t n = whi_bench_fitting(b, threads.v[k], (sizes.v[i] + 95) * 5 / 4);
            if (n != 0) {
                WHI_BENCH_TRY(run(b, kernels, (whi_bench_blocks){n, sizes.v[i], sizes.v[i]}));
            }
        }
    }
    return WH_OK;
}
