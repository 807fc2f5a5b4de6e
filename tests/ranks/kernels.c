/* kernels.c: kernels of a graph on several ranks by themselves, in one process without MPI, under
 * all policies: arcs to messages, and what a mixed batch does where it arrives, against plain
 * loops. Tables are as small as they may be. */
#include "sim/sim_test.h"

#include "workload/ranks/shard_kernels.h"

#include "warpheap/graph.h"

#define IDS 40u
#define MOST 1200u /* arcs: several tiles of each of two blocks */
#define MOST_SIZE 5u
#define WORDS (2 * MOST + MOST_SIZE * (WHI_SHARD_ARCS + WHI_SHARD_HEAD))
#define FILL UINT64_MAX /* an arc of no vertex */

static uint32_t below(uint64_t *state, uint32_t n) {
    return (uint32_t)(next_random(state) >> 8) % n;
}

static int compare_u64(const void *a, const void *o) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)o;
    return x < y ? -1 : x > y;
}

typedef void body(wh_device *device, const whi_shard_kernels *on, uint64_t *random);

static void under_all_policies(body *run) {
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            uint64_t random = seed;
            wh_device *device = open_policy((wh_sim_policy)p, seed);
            run(device, whi_shard_kernels_find(WH_TARGET_SIM), &random);
            wh_device_close(device);
        }
    }
}

/* --- arcs to messages ---------------------------------------------------------------------------
 */

/* What a rank is to get: those that go, those that come; in order. */
typedef struct message {
    uint64_t arc[2][2 * MOST];
    uint32_t n[2];
} message;

static message messages[MOST_SIZE];

static void expect(uint32_t to, int comes, uint32_t from, uint32_t end) {
    message *m = &messages[to];
    m->arc[comes][m->n[comes]++] = (uint64_t)end << 32 | from;
}

/* Returns how many arcs have an end that is no vertex. */
static uint64_t expect_all(const whi_shard_routing *r) {
    uint64_t bad = 0;
    memset(messages, 0, sizeof messages);
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t v = r->from[i], w = r->to[i];
        const int comes = r->erases != NULL && r->erases[i] == 0;
        if (v >= IDS || w >= IDS || r->map[v] == WHI_SHARD_NOBODY ||
            r->map[w] == WHI_SHARD_NOBODY) {
            bad++;
            continue;
        }
        expect(r->map[v], comes, v, w);
        if (r->both_ways && v != w) {
            expect(r->map[w], comes, w, v);
        }
    }
    return bad;
}

static void check_messages(const whi_shard_routing *r) {
    const uint64_t *at = r->out;
    for (uint32_t p = 0; p < r->size; p++) {
        message *m = &messages[p];
        const uint32_t n = m->n[0] + m->n[1], last = n % WHI_SHARD_ARCS;
        uint64_t got[2 * MOST];
        assert_int_equal(at[0], m->n[0]);
        assert_int_equal(at[1], 0);
        at += WHI_SHARD_HEAD;
        for (int comes = 0; comes < 2; comes++) {
            const uint32_t bytes = m->n[comes] * 8;
            assert_int_equal(r->counts[2 * p + (uint32_t)comes], m->n[comes]);
            memcpy(got, at, bytes);
            qsort(got, m->n[comes], 8, compare_u64);
            qsort(m->arc[comes], m->n[comes], 8, compare_u64);
            assert_memory_equal(got, m->arc[comes], bytes);
            at += m->n[comes];
        }
        for (uint32_t k = last; k != 0 && k < WHI_SHARD_ARCS; k++) {
            assert_true(*at++ == FILL);
        }
    }
}

/* Each arc knows a place of its own, which has it. */
static void check_seen(const whi_shard_routing *r) {
    static uint8_t is_used[WORDS];
    memset(is_used, 0, sizeof is_used);
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t v = r->from[i], w = r->to[i], place = r->seen[i];
        const uint32_t low = r->both_ways && w < v ? w : v, high = low == v ? w : v;
        if (place != WHI_SHARD_NOWHERE) {
            const uint64_t word = place + (uint64_t)WHI_SHARD_HEAD * (r->map[low] + 1u);
            assert_true(word < WORDS && is_used[word]++ == 0);
            assert_true(r->out[word] == ((uint64_t)high << 32 | low));
        }
    }
}

static void route(wh_device *d, const whi_shard_kernels *on, uint64_t *random) {
    whi_shard_routing r;
    memset(&r, 0, sizeof r);
    r.size = 1 + below(random, MOST_SIZE);
    r.n = below(random, MOST);
    r.ids = IDS;
    r.both_ways = below(random, 2) == 0;
    for (r.bits = 1; (2 * r.size + 1) >> r.bits != 0; r.bits++) {
    }
    uint32_t *from = take(d, 4 * MOST), *to = take(d, 4 * MOST);
    uint16_t *map = take(d, 2 * IDS);
    uint8_t *erases = take(d, MOST);
    for (uint32_t v = 0; v < IDS; v++) {
        map[v] = (uint16_t)(below(random, 8) == 0 ? WHI_SHARD_NOBODY : below(random, r.size));
    }
    for (uint32_t i = 0; i < r.n; i++) {
        from[i] = below(random, IDS + 2);
        to[i] = below(random, IDS + 2);
        erases[i] = (uint8_t)below(random, 2);
    }
    r.from = from;
    r.to = to;
    r.map = map;
    r.erases = below(random, 3) == 0 ? NULL : erases;
    r.seen = take(d, 4 * MOST);
    r.counts = take(d, 8 * MOST_SIZE);
    r.cursors = take(d, 8 * MOST_SIZE);
    r.tally = take(d, sizeof *r.tally);
    r.out = take(d, 8 * WORDS);
    const uint64_t bad = expect_all(&r);
    assert_int_equal(on->count(d, &r), WH_OK);
    assert_int_equal(on->lay(d, &r), WH_OK);
    assert_int_equal(on->scatter(d, &r), WH_OK);
    assert_int_equal(r.tally->bad, bad);
    check_messages(&r);
    check_seen(&r);
}

static void arcs_to_messages(void **state) {
    (void)state;
    under_all_policies(route);
}

/* --- what came ---------------------------------------------------------------------------------
 */

#define SEGMENTS 3u
#define ARRIVED (SEGMENTS * 80u)
#define KEYS 12u /* of arcs that come */
#define ENTRIES 16u

static uint64_t draw_arc(uint64_t *random) {
    return (uint64_t)below(random, KEYS / 4) << 32 | below(random, 4);
}

/* Messages: arcs that go, arcs that come, and what fills them up. */
static uint64_t *draw_messages(wh_device *d, uint64_t *random, whi_shard_arrival *a) {
    uint64_t *in = take(d, 8 * (ARRIVED + SEGMENTS * WHI_SHARD_HEAD)), *at = in;
    a->in = in;
    a->segments = SEGMENTS;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        const uint32_t go = below(random, 30), n = go + below(random, 40);
        const uint32_t filled = (n + WHI_SHARD_ARCS - 1) / WHI_SHARD_ARCS * WHI_SHARD_ARCS;
        at[0] = go;
        at += WHI_SHARD_HEAD;
        for (uint32_t k = 0; k < filled; k++) {
            *at++ = k < n ? draw_arc(random) : FILL;
        }
        a->first[s + 1] = a->first[s] + filled;
    }
    a->to.n = a->first[SEGMENTS];
    a->to.from = take(d, 4 * ARRIVED);
    a->to.to = take(d, 4 * ARRIVED);
    a->to.done = take(d, ARRIVED);
    a->to.tally = take(d, sizeof *a->to.tally);
    return in;
}

static uint64_t arc_at(const whi_shard_local *l, uint32_t i) {
    return (uint64_t)l->to[i] << 32 | l->from[i];
}

/* Which entry has the key; ENTRIES: none. No two have. */
static uint32_t entry_of(const whi_shard_local *l, uint64_t key) {
    uint32_t found = ENTRIES;
    for (uint32_t k = 0; k < ENTRIES; k++) {
        assert_false(l->keys[k] == key && found != ENTRIES);
        found = l->keys[k] == key ? k : found;
    }
    return found;
}

/* One of those that come alike holds the entry, and comes; what fills up neither comes, nor holds.
 */
static void check_roles(const whi_shard_arrival *a, uint32_t i, int goes) {
    const whi_shard_local *l = &a->to;
    const uint64_t arc = arc_at(l, i);
    if (arc == FILL) {
        assert_int_equal(l->role[i], WHI_SHARD_AGAIN);
        return;
    }
    const uint32_t k = entry_of(l, arc);
    if (goes) {
        assert_int_equal(l->role[i], k != ENTRIES ? WHI_SHARD_STAYS : WHI_SHARD_GOES);
    } else {
        assert_true(k < ENTRIES);
        assert_int_equal(l->role[i], l->holders[k] == i ? WHI_SHARD_COMES : WHI_SHARD_AGAIN);
    }
    assert_int_equal(l->comes[i], l->role[i] == WHI_SHARD_COMES ? l->from[i] : WHI_SHARD_NOWHERE);
    assert_int_equal(l->goes[i], l->role[i] == WHI_SHARD_GOES ? l->from[i] : WHI_SHARD_NOWHERE);
}

static void check_arrival(const whi_shard_arrival *a) {
    uint64_t n_keys = 0, n_come = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        const uint64_t *in = a->in + a->first[s] + (uint64_t)WHI_SHARD_HEAD * s;
        for (uint64_t i = a->first[s]; i < a->first[s + 1]; i++) {
            const uint64_t k = i - a->first[s];
            assert_true(arc_at(&a->to, (uint32_t)i) == in[WHI_SHARD_HEAD + k]);
            check_roles(a, (uint32_t)i, k < in[0]);
            n_come += a->to.role[i] == WHI_SHARD_COMES;
        }
    }
    for (uint32_t k = 0; k < ENTRIES; k++) {
        n_keys += a->to.keys[k] != FILL;
    }
    assert_int_equal(n_come, n_keys);
}

/* Whether the graph had an arc before the batch. */
static int was_there(uint64_t arc) {
    return (arc ^ arc >> 32) % 2 != 0;
}

/* What the insertion and the erasure say. */
static void answer(const whi_shard_local *l, uint64_t *random) {
    for (uint32_t i = 0; i < l->n; i++) {
        l->done[i] = WH_GRAPH_NO_VERTEX;
        l->gone[i] = (uint8_t)(below(random, 2) ? WH_GRAPH_APPLIED : WH_GRAPH_NO_CHANGE);
        if (l->role[i] == WHI_SHARD_COMES) {
            l->done[i] = (uint8_t)(was_there(arc_at(l, i)) ? WH_GRAPH_NO_CHANGE : WH_GRAPH_APPLIED);
        }
    }
}

/* Of the copies of an arc that goes and comes, if it was there, one of each kind was new. Returns
 * how many arcs were applied. */
static uint64_t check_done(const whi_shard_local *l) {
    uint32_t stays[ENTRIES] = {0}, applied[ENTRIES] = {0};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->role[i] == WHI_SHARD_STAYS) {
            const uint32_t k = entry_of(l, arc_at(l, i));
            stays[k]++;
            applied[k] += l->done[i] == WH_GRAPH_APPLIED;
            assert_true(l->done[i] == WH_GRAPH_APPLIED || l->done[i] == WH_GRAPH_NO_CHANGE);
        }
        sum += l->done[i] == WH_GRAPH_APPLIED;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->role[i] == WHI_SHARD_AGAIN) {
            assert_int_equal(l->done[i], WH_GRAPH_NO_CHANGE);
        } else if (l->role[i] == WHI_SHARD_GOES) {
            assert_int_equal(l->done[i], l->gone[i]);
        } else if (l->role[i] == WHI_SHARD_COMES) {
            const uint32_t k = entry_of(l, arc_at(l, i));
            const int is_new = !was_there(arc_at(l, i));
            assert_int_equal(applied[k], !is_new && stays[k] != 0);
            assert_int_equal(l->done[i],
                             is_new || stays[k] != 0 ? WH_GRAPH_APPLIED : WH_GRAPH_NO_CHANGE);
        }
    }
    return sum;
}

static void mix(wh_device *d, const whi_shard_kernels *on, uint64_t *random) {
    whi_shard_arrival a;
    memset(&a, 0, sizeof a);
    (void)draw_messages(d, random, &a);
    whi_shard_local *l = &a.to;
    l->role = take(d, ARRIVED);
    l->gone = take(d, ARRIVED);
    l->comes = take(d, 4 * ARRIVED);
    l->goes = take(d, 4 * ARRIVED);
    l->keys = take(d, 8 * ENTRIES);
    l->holders = take(d, 4 * ENTRIES);
    l->mask = ENTRIES - 1;
    assert_int_equal(wh_device_set(d, l->keys, 0xff, 8 * ENTRIES), WH_OK);
    assert_int_equal(on->unpack(d, &a), WH_OK);
    assert_int_equal(on->sort_out(d, l), WH_OK);
    check_arrival(&a);
    answer(l, random);
    assert_int_equal(on->settle(d, l), WH_OK);
    assert_int_equal(on->sum_up(d, l), WH_OK);
    assert_int_equal(l->tally->told, check_done(l));
}

static void mixed_batches(void **state) {
    (void)state;
    under_all_policies(mix);
}

/* Loops are put aside. */
static void part(wh_device *d, const whi_shard_kernels *on, uint64_t *random) {
    whi_shard_arrival a;
    uint32_t n[KEYS] = {0}, n_loops = 0;
    memset(&a, 0, sizeof a);
    const uint64_t *in = draw_messages(d, random, &a);
    a.to.loops = take(d, 4 * ARRIVED);
    assert_int_equal(on->unpack(d, &a), WH_OK);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        in += WHI_SHARD_HEAD;
        for (uint64_t i = a.first[s]; i < a.first[s + 1]; i++, in++) {
            const int is_loop = *in != FILL && *in >> 32 == (uint32_t)*in;
            assert_true(arc_at(&a.to, (uint32_t)i) == (is_loop ? FILL : *in));
            if (is_loop) {
                n[(uint32_t)*in]++;
                n_loops++;
            }
        }
    }
    assert_int_equal(a.to.tally->loops, n_loops);
    for (uint32_t i = 0; i < n_loops; i++) {
        assert_true(a.to.loops[i] < KEYS && n[a.to.loops[i]]-- > 0);
    }
}

static void loops_apart(void **state) {
    (void)state;
    under_all_policies(part);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arcs_to_messages),
        cmocka_unit_test(mixed_batches),
        cmocka_unit_test(loops_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
