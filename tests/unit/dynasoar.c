/* dynasoar.c: what only this allocator has (dynasoar.h): fields of objects lie apart and keep out
 * of each other's way, and a walk visits every object of a kind once, whatever is allocated or
 * freed meanwhile by its rules. */
#include "sim/sim_test.h"

#include "warpheap/dynasoar.h"
#include "warpheap/heap.h"

#define THREADS 48u /* a whole warp, and half of one */
#define PER 6u

#define BALL(X) X(ball, double, x) X(ball, uint64_t, id) X(ball, float, r) X(ball, uint8_t, tint)
WH_DYNASOAR_TYPE(ball, 1, BALL)
#define CELL(X) X(cell, uint8_t, a) X(cell, uint16_t, b)
WH_DYNASOAR_TYPE(cell, 2, CELL)

typedef struct call {
    wh_dynasoar_ref heap;
    uint64_t *balls, *cells, *plain; /* of PER * threads: addresses; 0: none */
    uint64_t *seen;                  /* addresses, in the order in which walks met them */
    uint32_t *n_seen, *wrong, *nulls;
    uint32_t seed, kind;
} call;

WH_FN uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

WH_FN uint64_t address(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

/* --- objects of a thread: what they hold follows from the thread -------------------------------
 */

WH_FN void fill_ball(wh_dynasoar_ref h, ball *b, uint64_t id) {
    *ball_x(h, b) = (double)id + 0.5;
    *ball_id(h, b) = id;
    *ball_r(h, b) = (float)id;
    *ball_tint(h, b) = (uint8_t)(id * 7);
}

WH_FN int is_ball(wh_dynasoar_ref h, const ball *b, uint64_t id) {
    return *ball_id(h, b) == id && *ball_x(h, b) > (double)id && *ball_r(h, b) >= (float)id &&
           *ball_tint(h, b) == (uint8_t)(id * 7);
}

/* A thread takes a ball, a cell and a plain block of a ball's size, each of k, in its own order;
 * then gives about a third of them back. */
WH_KERNEL(make, call, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    uint32_t random = a.seed + i * 7919u;
    for (uint32_t k = i * PER; k < (i + 1) * PER; k++) {
        const int first = draw(&random) % 2 == 0;
        cell *c = first ? cell_new(a.heap, wh_activemask()) : NULL;
        ball *b = ball_new(a.heap, wh_activemask());
        uint64_t *p = (uint64_t *)wh_dynasoar_malloc(a.heap, wh_activemask(), 32);
        c = c != NULL ? c : cell_new(a.heap, wh_activemask());
        wh_add_u32_relaxed(a.nulls, b == NULL || c == NULL || p == NULL);
        if (b != NULL) {
            fill_ball(a.heap, b, k);
        }
        if (c != NULL) {
            *cell_a(a.heap, c) = (uint8_t)k;
            *cell_b(a.heap, c) = (uint16_t)(k * 3);
        }
        for (uint32_t w = 0; p != NULL && w < 4; w++) {
            p[w] = k + w;
        }
        a.balls[k] = address(b);
        a.cells[k] = address(c);
        a.plain[k] = address(p);
    }
    for (uint32_t k = i * PER; k < (i + 1) * PER; k++) {
        if (draw(&random) % 3 == 0) {
            wh_dynasoar_free(a.heap, wh_activemask(), (void *)(uintptr_t)a.balls[k]);
            a.balls[k] = 0;
        }
        if (draw(&random) % 3 == 0) {
            wh_dynasoar_free(a.heap, wh_activemask(), (void *)(uintptr_t)a.cells[k]);
            a.cells[k] = 0;
        }
    }
}

/* All hold what they should. */
WH_KERNEL(compare, call, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    for (uint32_t k = i * PER; k < (i + 1) * PER; k++) {
        const ball *b = (const ball *)(uintptr_t)a.balls[k];
        const cell *c = (const cell *)(uintptr_t)a.cells[k];
        const uint64_t *p = (const uint64_t *)(uintptr_t)a.plain[k];
        uint32_t wrong = b != NULL && !is_ball(a.heap, b, k);
        wrong += c != NULL && *cell_a(a.heap, c) != (uint8_t)k;
        wrong += c != NULL && *cell_b(a.heap, c) != (uint16_t)(k * 3);
        for (uint32_t w = 0; p != NULL && w < 4; w++) {
            wrong += p[w] != k + w;
        }
        wh_add_u32_relaxed(a.wrong, wrong);
    }
}

WH_FN void see(call a, const wh_dynasoar_each *e) {
    if (e->object != NULL) {
        a.seen[wh_fetch_add_u32_relaxed(a.n_seen, 1)] = address(e->object);
    }
}

WH_KERNEL(visit, call, a) {
    wh_dynasoar_each e = wh_dynasoar_each_of(a.heap, a.kind, wh_thread_id(), wh_grid_threads());
    while (wh_dynasoar_each_step(a.heap, &e)) {
        see(a, &e);
    }
}

/* Objects of the same kind are born meanwhile: those in balls[k] that were given back. */
WH_KERNEL(visit_births, call, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    wh_dynasoar_each e = wh_dynasoar_each_of(a.heap, a.kind, i, wh_grid_threads());
    uint32_t k = i * PER;
    while (wh_dynasoar_each_step(a.heap, &e)) {
        see(a, &e);
        if (k < (i + 1) * PER && a.balls[k] == 0) {
            ball *b = ball_new(a.heap, wh_activemask());
            if (b != NULL) {
                fill_ball(a.heap, b, k);
            }
            a.balls[k] = address(b);
        }
        k++;
    }
}

WH_KERNEL(mark, call, a) {
    wh_dynasoar_mark(a.heap, a.kind, wh_thread_id(), wh_grid_threads());
}

/* About half of those that are visited are freed, and their places may be given to plain blocks,
 * cells and balls at once. */
WH_KERNEL(visit_marked, call, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    wh_dynasoar_each e = wh_dynasoar_each_marked(a.heap, a.kind, i, wh_grid_threads());
    uint32_t random = a.seed + i * 7919u;
    while (wh_dynasoar_each_step(a.heap, &e)) {
        see(a, &e);
        ball *b = (ball *)e.object;
        if (b == NULL) {
            continue;
        }
        const uint64_t id = *ball_id(a.heap, b);
        wh_add_u32_relaxed(a.wrong, !is_ball(a.heap, b, id));
        if (draw(&random) % 2 == 0) {
            wh_dynasoar_free(a.heap, wh_activemask(), b);
            b = draw(&random) % 2 == 0 ? ball_new(a.heap, wh_activemask()) : NULL;
            if (b != NULL) {
                fill_ball(a.heap, b, id);
            } else if (a.cells[id] == 0) {
                cell *c = cell_new(a.heap, wh_activemask());
                if (c != NULL) {
                    *cell_a(a.heap, c) = (uint8_t)id;
                    *cell_b(a.heap, c) = (uint16_t)(id * 3);
                }
                a.cells[id] = address(c);
            }
            a.balls[id] = address(b);
        }
    }
}

WH_KERNEL(end, call, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    for (uint32_t k = i * PER; k < (i + 1) * PER; k++) {
        wh_dynasoar_free(a.heap, wh_activemask(), (void *)(uintptr_t)a.balls[k]);
        wh_dynasoar_free(a.heap, wh_activemask(), (void *)(uintptr_t)a.cells[k]);
        wh_dynasoar_free(a.heap, wh_activemask(), (void *)(uintptr_t)a.plain[k]);
    }
}

/* Balls until there is no room. */
WH_KERNEL(fill, call, a) {
    for (;;) {
        ball *b = ball_new(a.heap, wh_activemask());
        if (b == NULL) {
            return;
        }
        wh_add_u32_relaxed(a.n_seen, 1);
    }
}

/* --- the host ----------------------------------------------------------------------------------
 */

typedef struct bench {
    wh_device *device;
    wh_heap *heap;
    call a;
    uint32_t blocks, n; /* of threads, of objects */
} bench;

static bench make_bench(uint64_t seed, uint32_t blocks, uint64_t block_bytes, uint64_t bytes) {
    bench b;
    wh_heap_options o;
    wh_dynasoar_options own = WH_DYNASOAR_OPTIONS;
    memset(&b, 0, sizeof b);
    memset(&o, 0, sizeof o);
    b.device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    b.blocks = blocks;
    b.n = blocks * THREADS * PER;
    own.block_bytes = block_bytes;
    own.types = 2;
    o.device = b.device;
    o.allocator = "dynasoar";
    o.options = &own.head;
    o.bytes = bytes;
    assert_int_equal(wh_heap_create(&b.heap, &o), WH_OK);
    assert_int_equal(
        wh_heap_handle_of(b.heap, "dynasoar", wh_dynasoar_layout(), &b.a.heap, sizeof b.a.heap),
        WH_OK);
    b.a.balls = take(b.device, (uint64_t)b.n * 8);
    b.a.cells = take(b.device, (uint64_t)b.n * 8);
    b.a.plain = take(b.device, (uint64_t)b.n * 8);
    b.a.seen = take(b.device, (uint64_t)b.n * 16);
    b.a.n_seen = take(b.device, 12);
    b.a.wrong = b.a.n_seen + 1;
    b.a.nulls = b.a.n_seen + 2;
    b.a.seed = (uint32_t)seed * 31u;
    return b;
}

static void end_bench(bench *b) {
    assert_int_equal(wh_heap_check(b->heap, NULL), WH_OK);
    wh_heap_destroy(b->heap);
    assert_int_equal(wh_device_free(b->device, b->a.balls), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->a.cells), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->a.plain), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->a.seen), WH_OK);
    assert_int_equal(wh_device_free(b->device, b->a.n_seen), WH_OK);
    wh_device_close(b->device);
}

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* What was seen is what `expected` has, each once. more: and perhaps others, each once. */
static void check_seen(bench *b, const uint64_t *expected, int more) {
    uint64_t *want = (uint64_t *)calloc(b->n, sizeof *want);
    uint32_t n = 0;
    assert_non_null(want);
    for (uint32_t k = 0; k < b->n; k++) {
        if (expected[k] != 0) {
            want[n++] = expected[k];
        }
    }
    qsort(want, n, sizeof *want, by_value);
    qsort(b->a.seen, *b->a.n_seen, sizeof *b->a.seen, by_value);
    assert_true(more ? *b->a.n_seen >= n : *b->a.n_seen == n);
    uint32_t at = 0;
    for (uint32_t k = 0; k < *b->a.n_seen; k++) {
        assert_true(k == 0 || b->a.seen[k] != b->a.seen[k - 1]);
        at += at < n && b->a.seen[k] == want[at];
    }
    assert_int_equal(at, n);
    *b->a.n_seen = 0;
    free(want);
}

static void run(bench *b, wh_status (*kernel)(const wh_launch *, const call *), uint32_t blocks,
                uint32_t threads) {
    const wh_launch launch = grid(b->device, blocks, threads);
    assert_int_equal(kernel(&launch, &b->a), WH_OK);
    assert_int_equal(wh_heap_check(b->heap, NULL), WH_OK);
}

static void test_objects(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b = make_bench(seed, 3, 128u << seed % 4, 200000);
        run(&b, make, b.blocks, THREADS);
        assert_int_equal(*b.a.nulls, 0);
        run(&b, compare, b.blocks, THREADS);
        /* By threads that are whole warps, and parts of one, and by a single thread. */
        static const struct {
            uint32_t blocks, threads;
        } shapes[] = {{3, 64}, {3, THREADS}, {1, 1}, {5, 7}, {40, 32}};
        for (uint32_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            b.a.kind = ball_kind(b.a.heap);
            run(&b, visit, shapes[k].blocks, shapes[k].threads);
            check_seen(&b, b.a.balls, 0);
            b.a.kind = cell_kind(b.a.heap);
            run(&b, visit, shapes[k].blocks, shapes[k].threads);
            check_seen(&b, b.a.cells, 0);
            b.a.kind = wh_dynasoar_size_kind(b.a.heap, 30);
            run(&b, visit, shapes[k].blocks, shapes[k].threads);
            check_seen(&b, b.a.plain, 0);
            b.a.kind = 0;
            run(&b, visit, shapes[k].blocks, shapes[k].threads);
            assert_int_equal(*b.a.n_seen, 0);
        }
        run(&b, end, b.blocks, THREADS);
        assert_int_equal(*b.a.wrong, 0);
        end_bench(&b);
    }
}

/* Objects that are born during a walk take no other's turn. */
static void test_births(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b = make_bench(seed, 3, 256, 200000);
        run(&b, make, b.blocks, THREADS);
        b.a.kind = ball_kind(b.a.heap);
        uint64_t *before = (uint64_t *)calloc(b.n, sizeof *before);
        assert_non_null(before);
        memcpy(before, b.a.balls, b.n * sizeof *before);
        run(&b, visit_births, b.blocks, THREADS);
        check_seen(&b, before, 1);
        free(before);
        run(&b, visit, 2, 32);
        check_seen(&b, b.a.balls, 0);
        run(&b, compare, b.blocks, THREADS);
        run(&b, end, b.blocks, THREADS);
        assert_int_equal(*b.a.wrong, 0);
        end_bench(&b);
    }
}

/* A walk over what was noted sees that alone, though half of it is freed and others come. */
static void test_marked(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b = make_bench(seed, 3, 128, 200000);
        run(&b, make, b.blocks, THREADS);
        b.a.kind = ball_kind(b.a.heap);
        for (uint32_t round = 0; round < 3; round++) {
            uint64_t *before = (uint64_t *)calloc(b.n, sizeof *before);
            assert_non_null(before);
            memcpy(before, b.a.balls, b.n * sizeof *before);
            run(&b, mark, 2, 32);
            run(&b, visit_marked, 2 + round, 32);
            check_seen(&b, before, 0);
            free(before);
            run(&b, visit, 2, 32);
            check_seen(&b, b.a.balls, 0);
            run(&b, compare, b.blocks, THREADS);
            b.a.seed += 77;
        }
        run(&b, end, b.blocks, THREADS);
        assert_int_equal(*b.a.wrong, 0);
        end_bench(&b);
    }
}

/* A heap gives all that it has to one type: each block is full of it. */
static void test_full(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        bench b = make_bench(seed, 3, 128, 20000);
        wh_stats s;
        run(&b, fill, b.blocks, THREADS);
        assert_int_equal(*b.a.n_seen, b.a.heap.paged.table.n * (128 / 32));
        assert_int_equal(wh_heap_get_stats(b.heap, &s), WH_OK);
        assert_int_equal(s.live_blocks, *b.a.n_seen);
        end_bench(&b);
    }
}

static void test_kinds(void **state) {
    wh_dynasoar_ref h;
    (void)state;
    memset(&h, 0, sizeof h);
    h.paged.table.page_log2 = 8;
    h.types = 2;
    assert_int_equal(wh_dynasoar_size_kind(h, 0), 0);
    assert_int_equal(wh_dynasoar_size_kind(h, 128), wh_page_kind_for(8, 128));
    assert_int_equal(wh_dynasoar_size_kind(h, 129), 0);
    assert_int_equal(wh_dynasoar_type_kind(h, 0, 16), 0);
    assert_int_equal(wh_dynasoar_type_kind(h, 3, 16), 0);
    assert_int_equal(wh_dynasoar_type_kind(h, 2, 129), 0);
    assert_true(wh_dynasoar_type_kind(h, 2, 16) != wh_dynasoar_type_kind(h, 1, 16));
    assert_true(sizeof(struct ball_row) == 24 && sizeof(struct cell_row) == 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_objects),
                                       cmocka_unit_test(test_births), cmocka_unit_test(test_marked),
                                       cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
