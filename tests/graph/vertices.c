/* vertices.c: the device side of the graph (workload/graph/graph.h) on the simulated device
 * against a plain count of arcs: many lanes on few vertices, duplicates, deletes of what
 * is not there, memory running out; under every scheduling policy and many seeds, on
 * every allocator that hands out disjoint blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workload/graph/graph_file.h"
#include "workload/graph/graph_kernels.h"

#define N_VERTICES 96u
#define MAX_ARCS 8192u

typedef struct fixture {
    const wh_allocator_info *info;
    const wh_multigraph_kernels *k;
    wh_device *device;
    wh_heap *heap;
    wh_multigraph_view g;
    uint32_t *from, *to, *done; /* device; the simulated device's memory is the host's, but
                                   these tests copy all the same */
    uint64_t *offset;
    uint32_t *degree;
    uint32_t *out;
    uint64_t live_before;
    uint32_t count[N_VERTICES][N_VERTICES]; /* arcs u -> v that must be there */
    uint64_t random;
    char label[128];
} fixture;

#define OK(f, call)                                                            \
    do {                                                                       \
        const wh_status s_ = (call);                                           \
        if (s_ != WH_OK) {                                                     \
            fail_msg("%s: %s: %s (%s)", (f)->label, #call, wh_status_name(s_), \
                     wh_device_error_text((f)->device));                       \
        }                                                                      \
    } while (0)

#define EQUAL(f, a, b)                                                                             \
    do {                                                                                           \
        const uint64_t a_ = (a), b_ = (b);                                                         \
        if (a_ != b_) {                                                                            \
            fail_msg("%s: %s is %llu, expected %s = %llu", (f)->label, #a, (unsigned long long)a_, \
                     #b, (unsigned long long)b_);                                                  \
        }                                                                                          \
    } while (0)

static uint32_t below(fixture *f, uint32_t n) {
    f->random = f->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((f->random >> 32) * n) >> 32);
}

static void *device_memory(fixture *f, uint64_t bytes) {
    void *p = NULL;
    OK(f, wh_device_alloc(f->device, &p, bytes));
    OK(f, wh_device_set(f->device, p, 0, bytes));
    return p;
}

static uint64_t live(fixture *f) {
    wh_stats stats;
    if ((f->info->caps & WH_CAP_STATS) == 0) {
        return WH_UNKNOWN;
    }
    OK(f, wh_heap_get_stats(f->heap, &stats));
    return stats.live_blocks;
}

/* bytes 0: a heap in which memory cannot run out. */
static void open_graph(fixture *f, const wh_allocator_info *info, wh_sim_policy policy,
                       uint64_t seed, uint64_t bytes) {
    wh_sim_options sim;
    wh_heap_options o;
    memset(f, 0, sizeof *f);
    memset(&sim, 0, sizeof sim);
    memset(&o, 0, sizeof o);
    (void)snprintf(f->label, sizeof f->label, "%s, policy %d, seed %llu", info->name, (int)policy,
                   (unsigned long long)seed);
    f->info = info;
    f->random = seed;
    sim.seed = seed;
    sim.policy = policy;
    sim.step_budget = 200000000;
    const wh_status s = wh_device_open(&f->device, "sim", &sim);
    assert_int_equal(s, WH_OK);
    o.device = f->device;
    o.allocator = info->name;
    if (bytes == 0) {
        OK(f, wh_heap_min_bytes(&o, &o.bytes));
        o.bytes += o.bytes + (8u << 20);
    } else {
        o.bytes = bytes;
    }
    OK(f, wh_heap_create(&f->heap, &o));
    f->k = wh_multigraph_kernels_find(info->name, WH_TARGET_SIM);
    assert_non_null(f->k);
    f->g.n_vertices = N_VERTICES;
    f->g.shrink = (info->caps & WH_CAP_FREE) != 0;
    f->g.vertices = device_memory(f, N_VERTICES * sizeof *f->g.vertices);
    f->g.counts = device_memory(f, sizeof *f->g.counts);
    f->from = device_memory(f, MAX_ARCS * sizeof *f->from);
    f->to = device_memory(f, MAX_ARCS * sizeof *f->to);
    f->done = device_memory(f, MAX_ARCS * sizeof *f->done);
    f->offset = device_memory(f, (N_VERTICES + 1) * sizeof *f->offset);
    f->degree = device_memory(f, N_VERTICES * sizeof *f->degree);
    f->out = device_memory(f, 8 * MAX_ARCS * sizeof *f->out);
    OK(f, f->k->clear(f->heap, &f->g));
    OK(f, wh_device_sync(f->device));
    f->live_before = live(f);
}

static wh_multigraph_counts take_counts(fixture *f) {
    wh_multigraph_counts counts;
    OK(f, wh_device_sync(f->device));
    OK(f, wh_device_copy_out(f->device, &counts, f->g.counts, sizeof counts));
    OK(f, wh_device_set(f->device, f->g.counts, 0, sizeof counts));
    return counts;
}

static void read_offsets(fixture *f, uint64_t offset[N_VERTICES + 1]) {
    uint32_t degree[N_VERTICES];
    OK(f, f->k->degrees(f->heap, &f->g, f->degree));
    EQUAL(f, take_counts(f).broken, 0);
    OK(f, wh_device_copy_out(f->device, degree, f->degree, sizeof degree));
    offset[0] = 0;
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        offset[v + 1] = offset[v] + degree[v];
    }
    assert_true(offset[N_VERTICES] <= 8 * MAX_ARCS);
}

/* Every adjacency is what is counted, as a multiset. */
static void expect_counted(fixture *f) {
    uint64_t offset[N_VERTICES + 1];
    static uint32_t to[8 * MAX_ARCS];
    static uint32_t found[N_VERTICES][N_VERTICES];
    read_offsets(f, offset);
    OK(f, wh_device_copy_in(f->device, f->offset, offset, sizeof offset));
    OK(f, f->k->dump(f->heap, &f->g, f->offset, f->out));
    OK(f, wh_device_sync(f->device));
    if (offset[N_VERTICES] != 0) {
        OK(f, wh_device_copy_out(f->device, to, f->out, offset[N_VERTICES] * sizeof *to));
    }
    memset(found, 0, sizeof found);
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            assert_true(to[i] < N_VERTICES);
            found[v][to[i]]++;
        }
    }
    for (uint32_t u = 0; u < N_VERTICES; u++) {
        for (uint32_t v = 0; v < N_VERTICES; v++) {
            EQUAL(f, found[u][v], f->count[u][v]);
        }
    }
    if ((f->info->caps & WH_CAP_CHECK) != 0) {
        OK(f, wh_heap_check(f->heap, NULL));
    }
}

static void close_graph(fixture *f) {
    OK(f, f->k->destroy(f->heap, &f->g));
    OK(f, wh_device_sync(f->device));
    if (f->live_before != WH_UNKNOWN && (f->info->caps & WH_CAP_FREE) != 0) {
        EQUAL(f, live(f), f->live_before);
    }
    memset(f->count, 0, sizeof f->count);
    expect_counted(f);
    wh_heap_destroy(f->heap);
    void *const arrays[] = {f->g.vertices, f->g.counts, f->from,   f->to,
                            f->done,       f->offset,   f->degree, f->out};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        OK(f, wh_device_free(f->device, arrays[i]));
    }
    wh_device_close(f->device);
}

/* Inserts n random arcs from the first `range` vertices to the first `targets`; counts
 * those that went in. Returns how many did not. */
static uint64_t insert(fixture *f, uint32_t n, uint32_t range, uint32_t targets) {
    static uint32_t from[MAX_ARCS], to[MAX_ARCS], done[MAX_ARCS];
    uint64_t refused = 0;
    for (uint32_t i = 0; i < n; i++) {
        from[i] = below(f, range);
        to[i] = below(f, targets);
    }
    OK(f, wh_device_copy_in(f->device, f->from, from, n * sizeof *from));
    OK(f, wh_device_copy_in(f->device, f->to, to, n * sizeof *to));
    OK(f, f->k->insert(f->heap, &f->g, f->from, f->to, n, f->done));
    const wh_multigraph_counts counts = take_counts(f);
    OK(f, wh_device_copy_out(f->device, done, f->done, n * sizeof *done));
    for (uint32_t i = 0; i < n; i++) {
        f->count[from[i]][to[i]] += done[i] == WH_MULTIGRAPH_INSERTED;
        refused += done[i] == WH_MULTIGRAPH_NOT_DONE;
        assert_true(done[i] == WH_MULTIGRAPH_INSERTED || done[i] == WH_MULTIGRAPH_NOT_DONE);
    }
    EQUAL(f, counts.failed, refused);
    return refused;
}

/* Removes n random arcs of the same kind, there or not. */
static void remove_some(fixture *f, uint32_t n, uint32_t range, uint32_t targets) {
    static uint32_t from[MAX_ARCS], to[MAX_ARCS], done[MAX_ARCS];
    static uint32_t asked[N_VERTICES][N_VERTICES], missed[N_VERTICES][N_VERTICES];
    uint64_t missing = 0;
    memset(asked, 0, sizeof asked);
    memset(missed, 0, sizeof missed);
    for (uint32_t i = 0; i < n; i++) {
        from[i] = below(f, range);
        to[i] = below(f, targets);
        done[i] =
            i % 7 != 0 ? WH_MULTIGRAPH_INSERTED : WH_MULTIGRAPH_NOT_DONE; /* the latter stay */
    }
    OK(f, wh_device_copy_in(f->device, f->from, from, n * sizeof *from));
    OK(f, wh_device_copy_in(f->device, f->to, to, n * sizeof *to));
    OK(f, wh_device_copy_in(f->device, f->done, done, n * sizeof *done));
    OK(f, f->k->remove(f->heap, &f->g, f->from, f->to, n, f->done));
    const wh_multigraph_counts counts = take_counts(f);
    OK(f, wh_device_copy_out(f->device, done, f->done, n * sizeof *done));
    for (uint32_t i = 0; i < n; i++) {
        asked[from[i]][to[i]] += i % 7 != 0;
        missed[from[i]][to[i]] += done[i] == WH_MULTIGRAPH_MISSING;
        missing += done[i] == WH_MULTIGRAPH_MISSING;
    }
    EQUAL(f, counts.missing, missing);
    /* Exactly as many go as there are. */
    for (uint32_t u = 0; u < N_VERTICES; u++) {
        for (uint32_t v = 0; v < N_VERTICES; v++) {
            const uint32_t had = f->count[u][v];
            const uint32_t gone = asked[u][v] < had ? asked[u][v] : had;
            EQUAL(f, missed[u][v], asked[u][v] - gone);
            f->count[u][v] = had - gone;
        }
    }
}

/* Lists of very different lengths, longer than a warp copies lane by lane. */
static void init_lists(fixture *f) {
    uint64_t offset[N_VERTICES + 1];
    static uint32_t to[MAX_ARCS];
    offset[0] = 0;
    for (uint32_t v = 0; v < N_VERTICES; v++) {
        const uint32_t most = v % 11 == 0 ? 300 : 10;
        const uint32_t n = v % 11 != 0 && v % 3 == 0 ? 0 : below(f, most);
        offset[v + 1] = offset[v] + n;
        for (uint64_t i = offset[v]; i < offset[v + 1]; i++) {
            to[i] = below(f, N_VERTICES);
            f->count[v][to[i]]++;
        }
    }
    OK(f, wh_device_copy_in(f->device, f->offset, offset, sizeof offset));
    OK(f, wh_device_copy_in(f->device, f->to, to, offset[N_VERTICES] * sizeof *to));
    OK(f, f->k->init(f->heap, &f->g, f->offset, f->to));
    EQUAL(f, take_counts(f).failed, 0);
}

static void run_mix(const wh_allocator_info *info, wh_sim_policy policy, uint64_t seed) {
    static fixture f;
    open_graph(&f, info, policy, seed, 0);
    init_lists(&f);
    expect_counted(&f);
    EQUAL(&f, insert(&f, 700, N_VERTICES, N_VERTICES), 0);
    expect_counted(&f);
    EQUAL(&f, insert(&f, 500, 3, 8), 0); /* every warp on three vertices, many duplicates */
    expect_counted(&f);
    remove_some(&f, 600, 3, 8);
    expect_counted(&f);
    remove_some(&f, 700, N_VERTICES, N_VERTICES); /* most of these are not there */
    expect_counted(&f);
    EQUAL(&f, insert(&f, 33, 1, N_VERTICES), 0); /* one vertex, a warp and a lane */
    remove_some(&f, 600, 1, N_VERTICES);
    expect_counted(&f);
    close_graph(&f);
}

static uint32_t n_seeds(void) {
    const char *given = getenv("WH_TEST_SEEDS");
    return given != NULL ? (uint32_t)strtoul(given, NULL, 10) : WH_TEST_SEEDS_DEFAULT;
}

static int is_tested(const wh_allocator_info *info) {
    const uint32_t needed = WH_CAP_DISJOINT | WH_CAP_SIM;
    return (info->caps & needed) == needed && info->max_size >= 4096 && /* arrays grow */
           wh_multigraph_kernels_find(info->name, WH_TARGET_SIM) != NULL;
}

/* All seeds that are asked for, and else those of the default allocator; of others some, and other
 * ones of each. Checked builds take long: one. */
static uint32_t seeds_of(const wh_allocator_info *info, uint32_t i, uint32_t *first) {
    const int all = getenv("WH_TEST_SEEDS") != NULL || strcmp(info->name, "tessera") == 0;
    const uint32_t few = n_seeds() < 10 ? 1 : 3;
    const int every = n_seeds() >= 10 && all;
    *first = every ? 1 : i + 1;
    return every ? n_seeds() : few;
}

static void mix(void **state) {
    const wh_allocator_info *info;
    uint32_t tested = 0;
    (void)state;
    for (uint32_t i = 0; (info = wh_allocator_at(i)) != NULL; i++) {
        for (uint32_t p = 0; is_tested(info) && p < WH_SIM_POLICY_COUNT; p++) {
            uint32_t first = 1;
            const uint32_t n = seeds_of(info, i, &first);
            for (uint32_t seed = first; seed < first + n; seed++) {
                run_mix(info, (wh_sim_policy)p, seed);
                tested++;
            }
        }
    }
    assert_true(tested > 0);
}

/* A heap that fills up: what does not fit is refused and counted, what fitted stays
 * whole, and a heap that can free serves again after deletes. */
static void run_out(const wh_allocator_info *info, uint64_t seed) {
    static fixture f;
    wh_heap_options o;
    uint64_t bytes = 0, refused = 0;
    open_graph(&f, info, WH_SIM_STICKY, seed, 0);
    memset(&o, 0, sizeof o);
    o.allocator = info->name;
    o.device = f.device;
    OK(&f, wh_heap_min_bytes(&o, &bytes));
    bytes = bytes > 128u << 10 ? bytes : 128u << 10;
    close_graph(&f);
    open_graph(&f, info, WH_SIM_STICKY, seed, bytes);
    /* Fill with arcs between all vertices until the heap refuses some. */
    for (uint32_t round = 0; round < 6 && refused == 0; round++) {
        refused = insert(&f, MAX_ARCS, N_VERTICES, N_VERTICES);
        expect_counted(&f);
    }
    if (refused == 0) {
        print_message("%s: a heap of %llu bytes held everything\n", info->name,
                      (unsigned long long)bytes);
    } else if ((info->caps & WH_CAP_FREE) != 0) {
        remove_some(&f, MAX_ARCS, N_VERTICES, N_VERTICES);
        expect_counted(&f);
    }
    close_graph(&f);
}

static void out_of_memory(void **state) {
    const wh_allocator_info *info;
    (void)state;
    for (uint32_t i = 0; (info = wh_allocator_at(i)) != NULL; i++) {
        for (uint32_t seed = 1; is_tested(info) && seed <= (n_seeds() < 10 ? 1 : 3); seed++) {
            run_out(info, seed);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mix), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
