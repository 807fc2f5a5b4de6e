/* model.c: random mallocs, marks, rewinds and closes in arenas of all scopes, against a model on
 * the host: which blocks are live, and what each of them holds; and how many pieces the heap has
 * given. In heaps with room, and in heaps that are full most of the time. Compiled once more for
 * other allocators that free and serve any size. */
#include "sim/sim_test.h"

#include "arena/players.h"

enum { ROUNDS = 4, LAUNCHES = 3, MOST_THREADS = 200, MOST_LIVE = MALLOCS * ROUNDS * LAUNCHES };

/* What one thread has allocated of its arena, in order: what a rewind takes off is the end of it.
 */
typedef struct belongings {
    void *p[MOST_LIVE];
    request r[MOST_LIVE];
    uint32_t n, marked[MOST_MARKS], marks;
} belongings;

typedef struct game {
    wh_device *device;
    wh_heap *heap;
    wh_launch launch;
    play_args a;
    uint32_t threads, nulls;
    uint64_t random;
    int is_tight;
    belongings *of; /* each thread */
} game;

static uint64_t below(game *g, uint64_t n) {
    return next_random(&g->random) % n;
}

/* --- the script ------------------------------------------------------------------------------- */

/* The first thread of the arena that a thread has a part in. */
static uint32_t owner_of(const game *g, uint32_t i) {
    const uint32_t in = i % g->launch.threads, block = i - in;
    if (g->a.scope == LANE) {
        return i;
    }
    if (g->a.scope == BLOCK) {
        return block;
    }
    return block + in / 32 * 32 + (g->a.scope == HALF ? in % 2 : 0);
}

static uint64_t some_size(game *g) {
    const uint64_t kind = below(g, 40);
    if (kind == 0) {
        return below(g, 9000);
    }
    if (kind == 1) { /* nobody has that: SIZE_MAX, and the like */
        return g->is_tight ? UINT64_MAX - below(g, 40) : 1;
    }
    const uint64_t most = kind < 20 ? 40 : 300;
    return kind < 8 ? 0 : below(g, most);
}

static void write_script(game *g) {
    static const uint32_t aligns[] = {16, 32, 128, 1024};
    request *asks = (request *)(uintptr_t)g->a.asks;
    uint32_t *ops = (uint32_t *)(uintptr_t)g->a.ops;
    for (uint32_t row = 0; row < ROUNDS * MALLOCS; row++) {
        const int own = g->a.scope == LANE || g->a.scope == BLOCK;
        uint32_t align = below(g, 4) == 0 ? aligns[below(g, 4)] : 0;
        for (uint32_t i = 0; i < g->threads; i++) {
            if (own) { /* lanes of a warp's arena have one */
                align = below(g, 4) == 0 ? aligns[below(g, 4)] : 0;
            }
            asks[row * g->threads + i] =
                (request){some_size(g), align, (uint32_t)below(g, 1u << 31)};
        }
    }
    for (uint32_t row = 0; row < ROUNDS; row++) {
        for (uint32_t i = 0; i < g->threads; i++) {
            ops[row * g->threads + i] = (uint32_t)below(g, OP_KINDS + 1);
        }
    }
}

/* Of an arena all threads have one operation, and it may be made only where there is a mark. */
static uint32_t op_of(game *g, uint32_t row, uint32_t i) {
    uint32_t *op = (uint32_t *)(uintptr_t)&g->a.ops[row * g->threads + i];
    const belongings *b = &g->of[i];
    if (owner_of(g, i) != i) {
        *op = g->a.ops[row * g->threads + owner_of(g, i)];
    } else if (*op == OP_MARK) {
        *op = b->marks < MOST_MARKS ? OP_MARK : OP_NONE;
    } else if (*op == OP_REWIND || *op == OP_KINDS) { /* rewinds are frequent */
        *op = b->marks != 0 ? OP_REWIND | (uint32_t)below(g, b->marks) << 8 : OP_NONE;
    } else if (*op == OP_CLOSE) {
        *op = below(g, 3) == 0 ? OP_CLOSE : OP_NONE;
    }
    return *op;
}

/* --- the model -------------------------------------------------------------------------------- */

/* Operations do not depend on what mallocs return, so that they are known before the launch. */
static void plan_ops(game *g) {
    for (uint32_t row = 0; row < ROUNDS; row++) {
        for (uint32_t i = 0; i < g->threads; i++) {
            const uint32_t op = op_of(g, row, i);
            belongings *b = &g->of[i];
            if ((op & 255) == OP_MARK) {
                b->marks++;
            } else if ((op & 255) == OP_REWIND) {
                b->marks = (op >> 8) + 1;
            } else if (op == OP_CLOSE) {
                b->marks = 0;
            }
        }
    }
}

static void apply(game *g) {
    for (uint32_t row = 0; row < ROUNDS; row++) {
        for (uint32_t i = 0; i < g->threads; i++) {
            belongings *b = &g->of[i];
            for (uint32_t k = 0; k < MALLOCS; k++) {
                const uint32_t at = (row * MALLOCS + k) * g->threads + i;
                const request r = g->a.asks[at];
                if (g->a.got[at] != NULL) {
                    assert_true(b->n < MOST_LIVE && r.size != 0);
                    b->p[b->n] = g->a.got[at];
                    b->r[b->n++] = r;
                } else {
                    g->nulls += r.size != 0 && r.size < 1u << 20;
                }
            }
            const uint32_t op = g->a.ops[row * g->threads + i];
            if ((op & 255) == OP_MARK) {
                b->marked[b->marks++] = b->n;
            } else if ((op & 255) == OP_REWIND) {
                b->marks = (op >> 8) + 1;
                b->n = b->marked[op >> 8];
            } else if (op == OP_CLOSE) {
                b->n = b->marks = 0;
            }
        }
    }
}

static uint64_t pieces_of(uint64_t top, uint64_t spare) {
    uint64_t n = spare != 0;
    for (; top != 0; top = ((const wh_arena_piece *)(uintptr_t)top)->below) {
        n++;
    }
    return n;
}

/* What all arenas have of the heap; those of a warp all its lanes say alike. */
static uint64_t all_pieces(const game *g) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->threads; i++) {
        const uint32_t owner = owner_of(g, i);
        if (g->a.scope == BLOCK) {
            const wh_block_arena *b = &g->a.blocks[i / g->launch.threads];
            n += owner == i ? pieces_of(b->top, b->spare) : 0;
        } else {
            const player *p = &g->a.players[i];
            const wh_arena *own = g->a.scope == LANE ? &p->lane : &p->warp.own;
            const wh_arena *first = &g->a.players[owner].warp.own;
            n += owner == i ? pieces_of(own->top, own->spare) : 0;
            assert_true(g->a.scope == LANE || (own->top == first->top && own->at == first->at));
        }
    }
    return n;
}

static void check(game *g) {
    wh_stats stats;
    stats.struct_bytes = sizeof stats;
    assert_int_equal(*g->a.wrong, 0);
    for (uint32_t i = 0; i < g->threads; i++) {
        for (uint32_t k = 0; k < g->of[i].n; k++) {
            assert_true(is_filled(g->of[i].p[k], g->of[i].r[k]));
        }
    }
    assert_int_equal(wh_heap_get_stats(g->heap, &stats), WH_OK);
    if ((wh_allocator_find(WH_OF_(NAME))->caps & WH_CAP_STATS) != 0) {
        assert_int_equal(stats.live_blocks, all_pieces(g));
        assert_true(stats.bad_frees == 0 || stats.bad_frees == WH_UNKNOWN);
    }
    assert_int_equal(wh_heap_check(g->heap, NULL), WH_OK);
    assert_true(g->is_tight || g->nulls == 0);
}

/* --- a game ----------------------------------------------------------------------------------- */

static void open_game(game *g, scope of, uint64_t seed, int is_tight) {
    static const uint32_t threads[N_SCOPES][2] = {{2, 20}, {2, 48}, {2, 40}, {3, 64}};
    wh_heap_options o;
    wh_sim_options sim;
    uint64_t least = 0;
    memset(g, 0, sizeof *g);
    memset(&o, 0, sizeof o);
    memset(&sim, 0, sizeof sim);
    g->random = seed * 31 + (uint64_t)of;
    sim.seed = seed;
    sim.policy = (wh_sim_policy)(seed % N_POLICIES);
    sim.weak = seed / N_POLICIES % 2 != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    g->device = open_with(&sim);
    o.device = g->device;
    o.allocator = WH_OF_(NAME);
    assert_int_equal(wh_heap_min_bytes(&o, &least), WH_OK);
    o.bytes = least + (is_tight ? 32u << 10 : 16u << 20);
    assert_int_equal(wh_heap_create(&g->heap, &o), WH_OK);
    g->launch = grid(g->device, threads[of][0], threads[of][1]);
    g->threads = threads[of][0] * threads[of][1];
    g->is_tight = is_tight;
    g->a.scope = (uint32_t)of;
    g->a.rounds = ROUNDS;
    g->a.first = below(g, 3) == 0 ? (uint32_t)below(g, 2000) : 0;
    g->a.most = below(g, 3) == 0 ? (uint32_t)below(g, 5000) : 0;
    assert_int_equal(wh_heap_handle(g->heap, &g->a.heap), WH_OK);
    g->a.players = take(g->device, g->threads * sizeof *g->a.players);
    g->a.blocks = take(g->device, g->launch.blocks * sizeof *g->a.blocks);
    g->a.asks = take(g->device, (uint64_t)ROUNDS * MALLOCS * g->threads * sizeof *g->a.asks);
    g->a.got = take(g->device, (uint64_t)ROUNDS * MALLOCS * g->threads * sizeof *g->a.got);
    g->a.ops = take(g->device, (uint64_t)ROUNDS * g->threads * sizeof *g->a.ops);
    g->a.wrong = take(g->device, sizeof *g->a.wrong);
    g->of = calloc(g->threads, sizeof *g->of);
    assert_non_null(g->of);
}

static void launch(game *g) {
    const wh_status s =
        g->a.scope == BLOCK ? play_block(&g->launch, &g->a) : play_own(&g->launch, &g->a);
    if (s != WH_OK) {
        fail_msg("%s", wh_device_error_text(g->device));
    }
    assert_int_equal(wh_device_sync(g->device), WH_OK);
}

static uint32_t play(scope of, uint64_t seed, int is_tight) {
    game g;
    open_game(&g, of, seed, is_tight);
    for (uint32_t turn = 0; turn < LAUNCHES; turn++) {
        uint32_t marks[MOST_THREADS];
        g.a.begins = turn == 0;
        write_script(&g);
        for (uint32_t i = 0; i < g.threads; i++) {
            marks[i] = g.of[i].marks;
        }
        plan_ops(&g);
        for (uint32_t i = 0; i < g.threads; i++) {
            g.of[i].marks = marks[i];
        }
        launch(&g);
        apply(&g);
        check(&g);
    }
    g.a.begins = 0;
    g.a.ends = 1;
    g.a.rounds = 0;
    launch(&g);
    for (uint32_t i = 0; i < g.threads; i++) {
        g.of[i].n = 0;
    }
    check(&g);
    assert_int_equal(all_pieces(&g), 0);
    const uint32_t nulls = g.nulls;
    free(g.of);
    void *const arrays[] = {
        g.a.players, g.a.blocks, (void *)(uintptr_t)g.a.asks, g.a.got, (void *)(uintptr_t)g.a.ops,
        g.a.wrong};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        assert_int_equal(wh_device_free(g.device, arrays[i]), WH_OK);
    }
    assert_int_equal(wh_heap_destroy(g.heap), WH_OK);
    wh_device_close(g.device);
    return nulls;
}

static void plays(scope of) {
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        (void)play(of, seed, 0);
    }
}

static void test_lane(void **state) {
    (void)state;
    plays(LANE);
}
static void test_warp(void **state) {
    (void)state;
    plays(WARP);
}
static void test_half(void **state) {
    (void)state;
    plays(HALF);
}
static void test_block(void **state) {
    (void)state;
    plays(BLOCK);
}

/* Heaps that are full now and then: what there is stays whole, and nothing is lost. */
static void test_full(void **state) {
    (void)state;
    for (uint32_t of = 0; of < N_SCOPES; of++) {
        uint32_t nulls = 0;
        for (uint64_t seed = 0; seed < (n_seeds() + 2) / 2; seed++) {
            nulls += play((scope)of, seed, 1);
        }
        assert_true(nulls != 0);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lane),  cmocka_unit_test(test_warp), cmocka_unit_test(test_half),
        cmocka_unit_test(test_block), cmocka_unit_test(test_full),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
