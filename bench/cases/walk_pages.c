/* walk_pages.c: see walk_pages.h. */
#include "bench/cases/walk_pages.h"

#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/rwmalloc/layout.h"

int whi_pages_is(const whi_bench *b, const char *name) {
    return strcmp(b->alloc->name, name) == 0;
}

/* --- set-up -------------------------------------------------------------------------------- */

static wh_status new_array(whi_bench *b, void **array, uint64_t bytes) {
    return whi_bench_check(b, wh_device_alloc(b->device, array, bytes), "arrays for a walk");
}

/* The equations know no walk that gives up: the out-of-memory test is made to come late
 * (RW_malloc sweeps instead). */
static wh_status open_heap(whi_bench *b, uint64_t bytes) {
    wh_heap_options o = whi_bench_heap_options(b, b->alloc, bytes);
    wh_random_walk_options late = WH_RANDOM_WALK_OPTIONS;
    if (strcmp(b->alloc->family, late.head.family) == 0) {
        if (o.options != NULL) {
            memcpy(&late, o.options, sizeof late);
        }
        late.oom_free_ppm = late.oom_free_ppm != 0 ? late.oom_free_ppm : 100;
        o.options = &late.head;
    }
    whi_bench_close_heap(b);
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_create(&b->heap, &o), "heap"));
    b->heap_bytes = bytes;
    return whi_bench_check(b, b->kernels->bind(b->heap, &b->handle), "heap");
}

/* Bytes of a page of the open heap, which options may have changed. */
static uint64_t page_of(const whi_bench *b, const wh_stats *stats) {
    wh_rwmalloc_ref h;
    if (!whi_pages_is(b, "rw-malloc")) {
        return stats->classes[0].block_bytes;
    }
    memcpy(&h, &b->handle, sizeof h); /* units are no class of blocks */
    return (uint64_t)1 << h.unit_log2;
}

/* Whether the current allocator walks. */
static int find_kernels(whi_bench *b, whi_pages *w) {
    memset(w, 0, sizeof *w);
    w->b = b;
    w->kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    if (w->kernels == NULL || w->kernels->get == NULL) {
        w->kernels = NULL;
    }
    return w->kernels != NULL;
}

wh_status whi_pages_begin(whi_bench *b, whi_pages *w, uint64_t own) {
    if (!find_kernels(b, w)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(open_heap(b, b->options->heap_bytes != 0 ? b->options->heap_bytes : own));
    return whi_pages_begin_open(b, w);
}

wh_status whi_pages_begin_open(whi_bench *b, whi_pages *w) {
    wh_stats stats;
    if (!find_kernels(b, w)) {
        return WH_OK;
    }
    WHI_BENCH_TRY(whi_bench_check(b, wh_heap_get_stats(b->heap, &stats), "statistics"));
    w->page = page_of(b, &stats);
    w->n = (stats.heap_bytes - stats.metadata_bytes) / w->page;
    WHI_BENCH_TRY(new_array(b, &w->d_occupied, (w->n + 31) / 32 * 4));
    WHI_BENCH_TRY(new_array(b, &w->d_counts, sizeof(wh_paper_counts)));
    w->call.handle = b->handle;
    w->call.pages = w->n;
    w->call.page_bytes = w->page;
    w->call.occupied = w->d_occupied;
    w->call.counts = w->d_counts;
    return WH_OK;
}

wh_status whi_pages_begin_plain(whi_bench *b, whi_pages *w, uint64_t own) {
    memset(w, 0, sizeof *w);
    w->b = b;
    w->kernels = wh_paper_kernels_find(b->alloc->name, b->info->target);
    if (w->kernels == NULL) {
        return whi_bench_fail(b, WH_UNSUPPORTED, "no kernels");
    }
    WHI_BENCH_TRY(whi_bench_open_heap(b, whi_bench_case_heap(b, own)));
    WHI_BENCH_TRY(new_array(b, &w->d_counts, sizeof(wh_paper_counts)));
    w->call.handle = b->handle;
    w->call.counts = w->d_counts;
    w->page = WH_RANDOM_WALK_PAGE;
    w->n = b->heap_bytes / w->page;
    return WH_OK;
}

void whi_pages_end(whi_pages *w) {
    whi_bench_close_heap(w->b);
    (void)wh_device_free(w->b->device, w->d_occupied);
    (void)wh_device_free(w->b->device, w->d_counts);
    for (size_t i = 0; i < WHI_PAGES_KEPT; i++) {
        free(w->kept[i].words);
    }
}

/* --- which pages are used ------------------------------------------------------------------- */

/* All but `available` pages, chosen at random by the seed; NULL: no memory. What was chosen last
 * for a seed is kept, since series that differ in their threads alone ask for it again, and
 * choosing among the pages of 8 GiB takes a tenth of a second. */
static const uint32_t *choose(whi_pages *w, uint64_t available, uint64_t seed) {
    const uint64_t words = (w->n + 31) / 32;
    uint64_t left = w->n - available, state = seed * 2 + 1;
    whi_pages_choice *c = &w->kept[seed % WHI_PAGES_KEPT];
    if (c->words != NULL && c->available == available && c->seed == seed) {
        return c->words;
    }
    free(c->words);
    c->words = calloc(words, sizeof *c->words);
    if (c->words == NULL) {
        return NULL;
    }
    c->available = available;
    c->seed = seed;
    for (uint64_t p = 0; p < w->n; p++) { /* selection sampling: exactly `left` */
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint64_t r = (uint64_t)(((state >> 32) * (w->n - p)) >> 32);
        if (w->kernels->queue ? left != 0 : r < left) { /* a queue gives its first ones */
            c->words[p / 32] |= 1u << p % 32;
            left--;
        }
    }
    return c->words;
}

wh_status whi_pages_occupy(whi_pages *w, uint64_t available, uint64_t seed) {
    whi_bench *b = w->b;
    const uint64_t threads = b->on_sim ? 4096 : 262144, words = (w->n + 31) / 32;
    const uint32_t *occupied = choose(w, available, seed);
    const wh_launch l = whi_bench_shape(b, threads);
    WHI_BENCH_TRY(whi_bench_check(b, occupied != NULL ? WH_OK : WH_OUT_OF_MEMORY, "pages"));
    WHI_BENCH_TRY(whi_bench_reset_heap(b));
    WHI_BENCH_TRY(whi_bench_check(
        b, wh_device_copy_in(b->device, w->d_occupied, occupied, words * 4), "pages"));
    w->call.n = w->kernels->queue ? w->n - available : words;
    return whi_bench_check(b, w->kernels->occupy(&l, &w->call), "occupying pages");
}

/* --- counts --------------------------------------------------------------------------------- */

wh_status whi_pages_clear_counts(whi_pages *w) {
    wh_paper_counts none;
    memset(&none, 0, sizeof none);
    return whi_bench_check(w->b, wh_device_copy_in(w->b->device, w->d_counts, &none, sizeof none),
                           "counts");
}

wh_status whi_pages_get_counts(whi_pages *w, wh_paper_counts *counts) {
    return whi_bench_check(
        w->b, wh_device_copy_out(w->b->device, counts, w->d_counts, sizeof *counts), "counts");
}
