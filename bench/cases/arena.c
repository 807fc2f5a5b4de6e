/* arena.c: the case arena: mallocs in arenas of a lane, a warp and a block, and their close. Beside
 * them `bump` gets the same requests: ratio_bump. docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/driver/internal.h"

static const char *const malloc_ops[] = {"lane-malloc", "warp-malloc", "block-malloc"};
static const char *const close_ops[] = {"lane-close", "warp-close", "block-close"};

typedef struct arena_state {
    whi_bench_plan p;
    const wh_bench_arena_kernels *kernels;
    uint32_t scope;
    uint64_t threads; /* each makes WH_BENCH_LOOP mallocs */
    void *arenas;
} arena_state;

/* --- bump --------------------------------------------------------------------------------------
 */

/* The median time of the same mallocs in a heap of `bump`, which is reset each time. *us: 0 if that
 * cannot be. */
static wh_status loops_of_bump(whi_bench_plan *p, wh_heap *heap, uint64_t threads, double *us) {
    whi_bench *b = p->b;
    const wh_bench_launcher loop = wh_bench_heaps_find("bump", b->info->target)->malloc_loop;
    whi_bench_series series;
    memset(&series, 0, sizeof series);
    if (!b->on_sim) { /* loads the kernel */
        WHI_BENCH_TRY(whi_bench_launch(p, loop, threads));
    }
    for (uint32_t i = 0; i < whi_bench_reps(b, 1); i++) {
        WHI_BENCH_TRY(whi_bench_check(b, wh_heap_reset(heap), "reset"));
        WHI_BENCH_TRY(whi_bench_time(p, loop, threads, &series));
    }
    *us = whi_bench_median(series.us, series.n);
    return WH_OK;
}

static wh_status time_bump(arena_state *s, double *us) {
    whi_bench *b = s->p.b;
    const wh_allocator_info *bump = wh_allocator_find("bump");
    const wh_bench_kernels *kernels = wh_bench_kernels_find("bump", b->info->target);
    wh_heap *heap = NULL;
    *us = 0;
    if (bump == NULL || kernels == NULL) {
        return WH_OK;
    }
    const wh_heap_options o = whi_bench_heap_options(b, bump, b->heap_bytes);
    if (wh_heap_create(&heap, &o) != WH_OK) {
        return WH_OK;
    }
    whi_bench_plan p = s->p;
    wh_status status = whi_bench_check(b, kernels->bind(heap, &p.call.handle), "a heap of bump");
    status = status == WH_OK ? loops_of_bump(&p, heap, s->threads, us) : status;
    (void)wh_heap_destroy(heap);
    return status;
}

/* --- a series -----------------------------------------------------------------------------------
 */

static wh_status look(arena_state *s, int timed, int contents) {
    wh_bench_counts counts;
    const uint32_t what = contents ? WHI_BENCH_CONTENTS | WHI_BENCH_PLACES : WHI_BENCH_PLACES;
    WHI_BENCH_TRY(whi_bench_verify(&s->p, what, &counts));
    whi_bench_count(&s->p, &counts, timed);
    return WH_OK;
}

/* Blocks are looked at while they are live; closed arenas leave the heap empty. */
static wh_status round_once(arena_state *s, int timed, int contents) {
    whi_bench_plan *p = &s->p;
    const wh_bench_launcher allocates = s->kernels->malloc_loop[s->scope];
    WHI_BENCH_TRY(whi_bench_time(p, allocates, s->threads, timed ? &p->mallocs : NULL));
    WHI_BENCH_TRY(look(s, timed, contents));
    if (!p->broken) {
        WHI_BENCH_TRY(
            whi_bench_time(p, s->kernels->close[s->scope], s->threads, timed ? &p->frees : NULL));
        WHI_BENCH_TRY(whi_bench_expect_empty(p));
    }
    return WH_OK;
}

static wh_status rounds(arena_state *s) {
    whi_bench *b = s->p.b;
    WHI_BENCH_TRY(whi_bench_fresh_heap(b));
    if (!b->on_sim) {
        WHI_BENCH_TRY(round_once(s, 0, 1));
    }
    const double start = whi_bench_wall_seconds();
    int done = 0;
    for (uint32_t i = 0; !done && !s->p.broken; i++) {
        done = i + 1 >= b->reps || whi_bench_over(b, start, WHI_BENCH_SERIES_LIMITS);
        WHI_BENCH_TRY(round_once(s, 1, done || b->options->check == WH_BENCH_CHECK_EVERY));
    }
    return WH_OK;
}

static wh_status series(arena_state *s) {
    whi_bench *b = s->p.b;
    double bump = 0;
    whi_bench_row mallocs = whi_bench_row_of(&s->p, "warm", malloc_ops[s->scope]);
    whi_bench_row closes = whi_bench_row_of(&s->p, "warm", close_ops[s->scope]);
    WHI_BENCH_TRY(
        whi_bench_floor(&s->p, b->heaps_kernels.floor_loop, s->threads, &mallocs.us_null));
    WHI_BENCH_TRY(whi_bench_floor(&s->p, s->kernels->floor_close, s->threads, &closes.us_null));
    WHI_BENCH_TRY(time_bump(s, &bump));
    WHI_BENCH_TRY(rounds(s));
    const double us = whi_bench_median(s->p.mallocs.us, s->p.mallocs.n);
    if (bump > 0 && s->p.mallocs.failed == 0) {
        whi_bench_add_value(&mallocs, "ratio_bump", us / bump, 3);
    }
    WHI_BENCH_TRY(whi_bench_emit(b, &mallocs, &s->p.mallocs));
    return s->p.frees.n != 0 ? whi_bench_emit(b, &closes, &s->p.frees) : WH_OK;
}

/* One scope, size and number of mallocs. */
static wh_status run(arena_state *s, uint64_t size, uint64_t n) {
    whi_bench *b = s->p.b;
    WHI_BENCH_TRY(whi_bench_begin(b, &s->p, b->heap_bytes, (whi_bench_blocks){n, size, size}));
    const uint64_t bytes = s->threads * WH_BENCH_ARENA_BYTES;
    wh_status status = wh_device_alloc(b->device, &s->arenas, bytes);
    status = status == WH_OK ? wh_device_set(b->device, s->arenas, 0, bytes) : status;
    if (status == WH_OK) {
        s->p.call.arenas = s->arenas;
        status = series(s);
    } else {
        status = whi_bench_check(b, status, "arenas");
    }
    (void)wh_device_free(b->device, s->arenas);
    if (s->p.broken) {
        whi_bench_close_heap(b);
    }
    return status;
}

wh_status whi_bench_case_arena(whi_bench *b) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->arena);
    const whi_bench_list threads = whi_bench_threads(b, &b->defaults->threads);
    const uint64_t whole = (uint64_t)WH_BENCH_BLOCK_THREADS * WH_BENCH_LOOP;
    const wh_bench_arena_kernels *kernels = wh_bench_arena_find(b->alloc->name, b->info->target);
    if (kernels == NULL) {
        return WH_OK;
    }
    for (size_t i = 0; i < sizes.n * threads.n; i++) {
        const uint64_t size = sizes.v[i / threads.n], asked = threads.v[i % threads.n];
        /* Pieces that are not used up: half of the heap is for them. */
        const uint64_t most = whi_bench_fitting(b, UINT64_MAX, 2 * size + 64) / whole;
        const uint64_t blocks = asked / whole + (asked < whole);
        const uint64_t n = (blocks < most ? blocks : most) * whole;
        for (uint32_t scope = 0; scope < WH_BENCH_ARENA_SCOPES; scope++) {
            arena_state s;
            const whi_bench_part part = {.op = malloc_ops[scope], .size = size, .threads = n};
            if (n == 0 || size > b->alloc->max_size || whi_bench_leave_out(b, part)) {
                continue;
            }
            memset(&s, 0, sizeof s);
            s.p.b = b;
            s.kernels = kernels;
            s.scope = scope;
            s.threads = n / WH_BENCH_LOOP;
            whi_bench_progress(b, size, n);
            WHI_BENCH_TRY(run(&s, size, n));
        }
    }
    return WH_OK;
}
