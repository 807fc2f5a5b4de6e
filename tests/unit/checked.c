/* checked.c: heaps that check what their users do, and records of what failed: each planted bug is
 * told with the right site; blocks that go from lane to lane are no bug, whatever the memory shows
 * whom when; what is in quarantine stays away, and comes back before NULL; lists of records that
 * are full, and that are read while lanes fill them; options, statistics, other calls. */
#define WH_ALLOCATOR tessera

#include <stdlib.h>

#include "sim/sim_test.h"

#include "warpheap/warpheap.h"

#include "planted_bugs.h"

#define MIB ((uint64_t)1 << 20)

typedef struct setup {
    wh_device *device;
    wh_heap *heap;
    wh_heap_ref h;
} setup;

static wh_sim_options sim_of(uint64_t seed, uint32_t weak) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.seed = seed;
    o.policy = (wh_sim_policy)(seed % N_POLICIES);
    o.weak = weak;
    o.step_budget = 20000000;
    return o;
}

static setup make(const wh_sim_options *sim, uint64_t bytes, wh_tessera_options own) {
    setup x;
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    x.device = open_with(sim);
    o.device = x.device;
    o.bytes = bytes;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&x.heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(x.heap, &x.h), WH_OK);
    return x;
}
static setup make_checked(uint64_t seed, uint32_t weak, uint64_t quarantine) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(seed, weak);
    own.checked = 1;
    own.quarantine_bytes = quarantine;
    return make(&sim, 2 * MIB, own);
}
static void drop(setup *x) {
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

static uint32_t read_all(const setup *x, wh_record *records, uint32_t room) {
    uint32_t n = 0;
    assert_int_equal(wh_heap_violations(x->heap, records, sizeof *records, room, &n), WH_OK);
    return n;
}

/* Nothing is wrong, or the test fails and says what. */
static void all_is_well(const setup *x) {
    wh_record r;
    char text[400];
    uint64_t found = 0;
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_check_blocks(x->heap, 0, &found), WH_OK);
    if (read_all(x, &r, 1) != 0) {
        fail_msg("%s", wh_record_text(&r, text, sizeof text));
    }
    assert_int_equal(found, 0);
}

/* --- bugs ------------------------------------------------------------------------------------- */

static void test_bugs(void **state) {
    (void)state;
    uint32_t wrong = 0;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        for (uint32_t bug = 0; bug < N_BUGS; bug++) {
            wh_device *d = open_policy((wh_sim_policy)policy, bug);
            wrong += bug_run(d, bug) != 0;
            wh_device_close(d);
        }
    }
    assert_int_equal(wrong, 0);
}

/* --- full heaps ------------------------------------------------------------------------------- */

typedef struct fill_args {
    wh_heap_ref h;
    void **p;
    uint64_t *n; /* how many, of each lane */
    uint64_t most, size, align;
} fill_args;

/* Each lane: until NULL. */
WH_KERNEL(fill, fill_args, a) {
    const uint64_t lane = wh_thread_id(), lanes = wh_grid_threads();
    uint64_t n = 0;
    for (uint64_t i = lane; i < a.most; i += lanes, n++) {
        a.p[i] = a.align > 16 ? wh_aligned_alloc(a.h, a.align, a.size) : wh_malloc(a.h, a.size);
        if (a.p[i] == NULL) {
            break;
        }
    }
    a.n[lane] = n;
}
WH_KERNEL(free_all, fill_args, a) {
    const uint64_t lane = wh_thread_id(), lanes = wh_grid_threads();
    for (uint64_t i = 0; i < a.n[lane]; i++) {
        wh_free(a.h, a.p[lane + i * lanes]);
        a.p[lane + i * lanes] = NULL;
    }
}

static uint64_t sum(const uint64_t *n, uint32_t lanes) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        all += n[i];
    }
    return all;
}

/* --- lanes that free each other's blocks ------------------------------------------------------ */

typedef struct hands_args {
    wh_heap_ref h;
    uint64_t *box; /* a pointer each */
    uint32_t n, rounds;
} hands_args;

/* Pointers go by relaxed exchanges: nothing orders a free behind what malloc did. */
WH_KERNEL(hands, hands_args, a) {
    uint32_t random = (uint32_t)wh_thread_id() * 7919u + 1;
    for (uint32_t i = 0; i < a.rounds; i++) {
        random = random * 1664525u + 1013904223u;
        const size_t n = (random >> 20) % 11 == 0 ? 3000 : 1 + (random >> 8) % 90;
        void *p = (random >> 16) % 7 == 0 ? wh_aligned_alloc(a.h, 128, n) : wh_malloc(a.h, n);
        const uint64_t other =
            wh_exchange_u64_relaxed(&a.box[random % a.n], (uint64_t)(uintptr_t)p);
        wh_free(a.h, (void *)(uintptr_t)other);
    }
}
WH_KERNEL(empty_hands, hands_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        wh_free(a.h, (void *)(uintptr_t)wh_exchange_u64_relaxed(&a.box[i], 0));
    }
}

static void test_hands(void **state) {
    (void)state;
    static const uint64_t quarantines[] = {1, 3000, 0, 250};
    for (uint64_t seed = 0; seed < 4 * n_seeds(); seed++) {
        setup x = make_checked(seed, seed % 3 == 2 ? WH_SIM_WEAK_NONE : WH_SIM_WEAK_GPU,
                               quarantines[seed % 4]);
        hands_args a = {x.h, take(x.device, 64 * 8), 1 + (uint32_t)(seed % 7) * 9, 40};
        const wh_launch l = grid(x.device, 3, 32);
        wh_stats s;
        assert_int_equal(hands(&l, &a), WH_OK);
        all_is_well(&x);
        assert_int_equal(empty_hands(&l, &a), WH_OK);
        all_is_well(&x);
        assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
        assert_int_equal(s.live_blocks, 0);
        assert_int_equal(s.used_bytes, 0);
        assert_int_equal(s.bad_frees, 0);
        if (seed % 2 == 1) { /* all of it comes back */
            const wh_launch one = grid(x.device, 1, 1);
            fill_args f = {x.h, take(x.device, 800), take(x.device, 8), 100, 30000, 16};
            assert_int_equal(fill(&one, &f), WH_OK);
            assert_true(f.n[0] > 50);
            all_is_well(&x);
        }
        assert_int_equal(wh_device_free(x.device, a.box), WH_OK);
        drop(&x);
    }
}

/* --- quarantine ------------------------------------------------------------------------------- */

/* A freed block is not given out again before as many bytes have been freed behind it. */
static void test_stays_away(void **state) {
    (void)state;
    setup x = make_checked(0, WH_SIM_WEAK_NONE, 20 * 112); /* 40 bytes take a slot of 112 */
    fill_args a = {x.h, take(x.device, 400 * sizeof(void *)), take(x.device, 8), 1, 40, 16};
    const wh_launch l = grid(x.device, 1, 1);
    void *before[400];
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(fill(&l, &a), WH_OK);
        before[i] = a.p[0];
        for (uint32_t k = i > 18 ? i - 18 : 0; k < i; k++) {
            assert_ptr_not_equal(before[k], before[i]);
        }
        assert_int_equal(free_all(&l, &a), WH_OK);
    }
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, 0);
    all_is_well(&x);
    drop(&x);
}

/* So it is with a warp that frees more at once than the quarantine has room for. */
static void test_warps_stay_away(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        const uint64_t room = (1 + seed % 40) * 112; /* 32 bytes take as much */
        setup x = make_checked(seed, WH_SIM_WEAK_NONE, room);
        fill_args a = {x.h, take(x.device, 32 * sizeof(void *)), take(x.device, 32 * 8), 32, 32,
                       16};
        const wh_launch l = grid(x.device, 1, 32);
        for (uint64_t round = 1; round < 4; round++) {
            assert_int_equal(fill(&l, &a), WH_OK);
            assert_int_equal(free_all(&l, &a), WH_OK);
            const uint64_t freed = round * 32 * 112;
            const uint64_t least = freed < room ? freed : room;
            /* Lanes that come alone, at the same time, may keep some more, or less. */
            assert_true(x.h.core.watch->held + 3 * 112 >= least);
        }
        all_is_well(&x);
        drop(&x);
    }
}

/* Of what takes seconds for each: all combinations below need four. */
static uint64_t few_seeds(void) {
    return getenv("WH_TEST_SEEDS") != NULL ? n_seeds() : (n_seeds() + 2) / 3;
}

/* A full heap gives all blocks again that have been freed, however large the quarantine is. */
static void test_full(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 40, 500, 5000, 16384, 40000};
    for (uint64_t seed = 0; seed < few_seeds(); seed++) {
        for (uint32_t k = 0; k < 6; k++) {
            setup x = make_checked(seed, seed % 2 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE,
                                   seed % 3 == 0 ? 4 * MIB : 0);
            const uint32_t lanes = seed % 2 ? 1 : 33;
            const wh_launch l = grid(x.device, 1, lanes);
            fill_args a = {x.h,
                           take(x.device, 30000 * sizeof(void *)),
                           take(x.device, 33 * 8),
                           30000,
                           sizes[(seed + k) % 6],
                           16};
            uint64_t first = 0;
            for (uint32_t round = 0; round < 3; round++) {
                assert_int_equal(fill(&l, &a), WH_OK);
                const uint64_t n = sum(a.n, lanes);
                first = round == 0 ? n : first;
                assert_true(n != 0);
                /* Small slabs of odd ends are as the lanes came. */
                assert_true(n + n / 16 + lanes >= first);
                all_is_well(&x);
                assert_int_equal(free_all(&l, &a), WH_OK);
            }
            all_is_well(&x);
            drop(&x);
        }
    }
}

/* Some lanes hold memory for a moment, all others that run out may not overlook it. */
WH_KERNEL(take_turns, fill_args, a) {
    for (uint32_t i = 0; i < a.most; i++) {
        void *p = wh_malloc(a.h, a.size);
        wh_add_u64_relaxed(a.n, p == NULL);
        wh_free(a.h, p);
    }
}

/* As many blocks as there are lanes fit, so nobody is told NULL. */
static void test_never_null(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4 * few_seeds(); seed++) {
        setup x = make_checked(seed, seed % 2 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE,
                               seed % 3 == 0 ? 1 : 2 * MIB);
        const int full = seed % 4 == 2 || seed % 4 == 3; /* warps */
        fill_args a = {x.h, NULL, take(x.device, 8), 12, full ? 12000 : 20000, 16};
        const wh_launch l = grid(x.device, 2, full ? 32 : 4);
        assert_int_equal(take_turns(&l, &a), WH_OK);
        assert_int_equal(a.n[0], 0);
        all_is_well(&x);
        drop(&x);
    }
}

/* --- lists of records ------------------------------------------------------------------------- */

typedef struct twice_args {
    wh_heap_ref h;
    wh_heap *heap;  /* NULL: nobody reads */
    uint32_t *seen; /* how often each thread's record has come */
    uint32_t n;
} twice_args;

/* What a record has to say, if it is whole. */
static int is_whole(const wh_record *r) {
    return r->kind == WH_RECORD_DOUBLE_FREE && r->bytes == 24 + 8 * (r->thread % 5) &&
           r->site.line == 1000 + r->thread && r->allocated.line == 2000 + r->thread &&
           r->freed.line == 3000 + r->thread && r->offset == 0;
}

static void read_into(const twice_args *a) {
    wh_record records[3];
    uint32_t n = 0;
    if (wh_heap_violations(a->heap, records, sizeof *records, 3, &n) != WH_OK) {
        wh_trap("wh_heap_violations");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!is_whole(&records[i])) {
            wh_trap("a record is torn");
        }
        wh_add_u32_relaxed(&a->seen[records[i].thread], 1);
    }
}

/* Each thread frees blocks twice; thread 0 reads what there is. */
WH_KERNEL(twice, twice_args, a) {
    const uint32_t i = (uint32_t)wh_thread_id();
    if (i == 0 && a.heap != NULL) {
        for (uint32_t k = 0; k < 60; k++) {
            read_into(&a);
            wh_backoff(2);
        }
        return;
    }
    for (uint32_t k = 0; k < a.n; k++) {
        void *p = wh_malloc_at(a.h, 24 + 8 * (i % 5), WH_TAG(2000 + i));
        wh_free_at(a.h, p, WH_TAG(3000 + i));
        wh_free_at(a.h, p, WH_TAG(1000 + i));
    }
}

static void test_full_list(void **state) {
    (void)state;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(1, WH_SIM_WEAK_NONE);
    own.checked = 1;
    own.violation_records = 8;
    setup x = make(&sim, 2 * MIB, own);
    twice_args a = {x.h, NULL, NULL, 3};
    const wh_launch l = grid(x.device, 1, 7);
    uint64_t counts[WH_RECORD_KINDS];
    wh_record r[16];
    for (uint64_t round = 1; round < 4; round++) {
        assert_int_equal(twice(&l, &a), WH_OK); /* 21, of which 8 have room */
        for (uint32_t k = 0; k < 8; k += 4) {
            assert_int_equal(read_all(&x, r, 4), 4);
            for (uint32_t i = 0; i < 4; i++) {
                assert_true(is_whole(&r[i]));
                assert_int_equal(r[i].number, (round - 1) * 8 + k + i);
            }
        }
        assert_int_equal(read_all(&x, r, 16), 0);
        assert_int_equal(wh_heap_record_counts(x.heap, counts, WH_RECORD_KINDS), WH_OK);
        assert_int_equal(counts[WH_RECORD_DOUBLE_FREE], 21 * round);
        assert_int_equal(counts[WH_RECORD_OUT_OF_MEMORY], 0);
    }
    drop(&x);
}

/* Nothing is lost that had room, nothing comes twice, and nothing is half there. */
static void test_read_meanwhile(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4 * n_seeds(); seed++) {
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        const wh_sim_options sim = sim_of(seed, WH_SIM_WEAK_NONE);
        own.checked = 1;
        own.violation_records = 1 + seed % 5;
        setup x = make(&sim, 2 * MIB, own);
        twice_args a = {x.h, x.heap, take(x.device, 40 * 4), 6};
        const wh_launch l = grid(x.device, 2, 10);
        assert_int_equal(twice(&l, &a), WH_OK);
        uint32_t n = 0, last = 0;
        uint64_t counts[WH_RECORD_KINDS];
        wh_record r[16];
        last = read_all(&x, r, 16);
        for (uint32_t i = 0; i < last; i++) {
            assert_true(is_whole(&r[i]));
            a.seen[r[i].thread]++;
        }
        for (uint32_t i = 0; i < 20; i++) {
            assert_true(a.seen[i] <= 6);
            n += a.seen[i];
        }
        assert_int_equal(wh_heap_record_counts(x.heap, counts, WH_RECORD_KINDS), WH_OK);
        assert_int_equal(counts[WH_RECORD_DOUBLE_FREE], 19 * 6);
        assert_true(n >= own.violation_records);
        assert_true(last == 0 || r[last - 1].number + 1 == n);
        all_is_well(&x);
        drop(&x);
    }
}

/* --- a kernel that ends ----------------------------------------------------------------------- */

static void test_trap(void **state) {
    (void)state;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(3, WH_SIM_WEAK_NONE);
    own.checked = 2;
    setup x = make(&sim, 2 * MIB, own);
    twice_args a = {x.h, NULL, NULL, 3};
    const wh_launch l = grid(x.device, 1, 1);
    wh_record r[4];
    assert_int_equal(twice(&l, &a), WH_DEVICE_ERROR);
    assert_non_null(strstr(wh_device_error_text(x.device), "wh_heap_violations"));
    assert_int_equal(read_all(&x, r, 4), 1);
    assert_true(is_whole(&r[0]));
    (void)wh_device_sync(x.device); /* says it once more */
    assert_int_equal(wh_heap_reset(x.heap), WH_OK);
    assert_int_equal(wh_heap_check_blocks(x.heap, 1, NULL), WH_OK);
    assert_int_equal(read_all(&x, r, 4), 0);
    drop(&x);
}

/* Lanes end between their number and their record: a reset makes the rows free again. */
static void test_trap_many(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < N_POLICIES; seed++) {
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        const wh_sim_options sim = sim_of(seed, WH_SIM_WEAK_NONE);
        own.checked = 2;
        own.violation_records = 1;
        setup x = make(&sim, 2 * MIB, own);
        twice_args a = {x.h, NULL, NULL, 3};
        const wh_launch many = grid(x.device, 2, 32), one = grid(x.device, 1, 1);
        wh_record r[4];
        for (uint32_t round = 0; round < 8; round++) {
            assert_int_equal(twice(round < 7 ? &many : &one, &a), WH_DEVICE_ERROR);
            (void)wh_device_sync(x.device);
            assert_int_equal(wh_heap_reset(x.heap), WH_OK);
            const uint32_t n = read_all(&x, r, 4);
            assert_true(n == 1 || (n == 0 && round < 7));
        }
        drop(&x);
    }
}

/* --- mallocs that fail ------------------------------------------------------------------------ */

typedef struct fail_args {
    wh_heap_ref h;
    uint64_t n;
    uint32_t how;
} fail_args;

WH_KERNEL(fail_kernel, fail_args, a) {
    void *p = NULL;
    switch (a.how) {
    case 0:
        p = wh_malloc(a.h, a.n);
        break;
    case 1:
        p = wh_malloc_at(a.h, a.n, WH_TAG(77));
        break;
    case 2:
        p = wh_malloc_warp(a.h, WH_FULL_WARP, a.n);
        break;
    case 3:
        p = wh_aligned_alloc(a.h, 64, a.n);
        break;
    case 4:
        p = wh_aligned_alloc(a.h, 65536, a.n);
        break;
    default:
        p = wh_calloc(a.h, a.n, a.n);
        break;
    }
    if (p != NULL) {
        wh_trap("there is no memory for it");
    }
}

static uint32_t read_failures(const setup *x, wh_record *records, uint32_t room) {
    uint32_t n = 0;
    assert_int_equal(wh_heap_failures(x->heap, records, sizeof *records, room, &n), WH_OK);
    return n;
}

static void failures_of(int checked) {
    static const uint64_t sizes[] = {40, 3000, 40000, 64 * MIB};
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(2, WH_SIM_WEAK_NONE);
    own.failure_records = 16;
    own.checked = (uint64_t)checked;
    setup x = make(&sim, 2 * MIB, own);
    fill_args f = {x.h, take(x.device, 140000 * sizeof(void *)), take(x.device, 8), 140000, 16, 16};
    const wh_launch one = grid(x.device, 1, 1), warp = grid(x.device, 1, 32);
    wh_record r[40];
    assert_int_equal(fill(&one, &f), WH_OK);
    assert_int_equal(read_failures(&x, r, 40), 1); /* what ended the fill */
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t how = 0; how < 5; how++) {
            const fail_args a = {x.h, sizes[k], how};
            assert_int_equal(fail_kernel(how == 2 ? &warp : &one, &a), WH_OK);
            assert_int_equal(read_failures(&x, r, 40), 1);
            const uint32_t kind = k == 3 ? WH_RECORD_TOO_LARGE : WH_RECORD_OUT_OF_MEMORY;
            assert_int_equal(r[0].kind, kind);
            assert_int_equal(r[0].bytes, sizes[k]);
            assert_int_equal(r[0].thread, 0);
            assert_int_equal(r[0].site.line, how == 1 ? 77 : 0);
            assert_int_equal(r[0].free_bytes, 0);
            assert_int_equal(r[0].largest_free, 0);
            assert_int_equal(wh_record_status(r[0].kind),
                             k == 3 ? WH_BAD_ARGUMENT : WH_OUT_OF_MEMORY);
        }
    }
    const fail_args many = {x.h, 40, 1};
    assert_int_equal(fail_kernel(&warp, &many), WH_OK); /* 32, of which the first 16 are there */
    assert_int_equal(read_failures(&x, r, 40), 16);
    uint64_t counts[WH_RECORD_KINDS];
    assert_int_equal(wh_heap_record_counts(x.heap, counts, WH_RECORD_KINDS), WH_OK);
    assert_int_equal(counts[WH_RECORD_OUT_OF_MEMORY], 1 + 15 + 32);
    assert_int_equal(counts[WH_RECORD_TOO_LARGE], 5);
    wh_stats s;
    assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
    assert_int_equal(s.failed, 1 + 20 + 32);
    const fail_args product = {x.h, (uint64_t)1 << 33, 5};
    assert_int_equal(fail_kernel(&one, &product), WH_OK);
    assert_int_equal(read_failures(&x, r, 40), 1);
    assert_int_equal(r[0].kind, WH_RECORD_TOO_LARGE);
    assert_int_equal(r[0].bytes, UINT64_MAX);
    assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
    assert_int_equal(s.failed, 1 + 20 + 32 + 1);
    if (checked) { /* what a block has around it makes this one too large */
        const fail_args whole = {x.h, s.heap_bytes - s.metadata_bytes - 16, 1};
        assert_int_equal(fail_kernel(&one, &whole), WH_OK);
        assert_int_equal(read_failures(&x, r, 40), 1);
        assert_int_equal(r[0].kind, WH_RECORD_TOO_LARGE);
    }
    drop(&x);
}

/* A malloc of more than the heap has does not empty the quarantine. */
static void test_too_large(void **state) {
    (void)state;
    const wh_sim_options sim = sim_of(2, WH_SIM_WEAK_NONE);
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    own.checked = 1;
    setup x = make(&sim, 2 * MIB, own);
    fill_args f = {x.h, take(x.device, 140000 * sizeof(void *)), take(x.device, 8), 140000, 40, 16};
    const wh_launch one = grid(x.device, 1, 1);
    const fail_args a = {x.h, 64 * MIB, 1};
    uint64_t before = 0, after = 0;
    assert_int_equal(fill(&one, &f), WH_OK);
    assert_int_equal(free_all(&one, &f), WH_OK);
    assert_int_equal(wh_heap_blocks_left(x.heap, 40, &before), WH_OK);
    assert_true(before < f.n[0]);
    assert_int_equal(fail_kernel(&one, &a), WH_OK);
    assert_int_equal(wh_heap_blocks_left(x.heap, 40, &after), WH_OK);
    assert_int_equal(after, before);
    drop(&x);
}

/* How much is free, and in a row, and of a class. */
static void test_state_of_heap(void **state) {
    (void)state;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(0, WH_SIM_WEAK_NONE);
    own.failure_records = 4;
    setup x = make(&sim, 2 * MIB, own);
    fill_args f = {x.h, take(x.device, 30000 * sizeof(void *)), take(x.device, 8), 30000, 16384,
                   16};
    const wh_launch one = grid(x.device, 1, 1);
    wh_record r[4];
    assert_int_equal(fill(&one, &f), WH_OK);
    assert_int_equal(read_failures(&x, r, 4), 1);
    assert_true(f.n[0] > 100);
    fill_args some = f;
    uint64_t number = 1;
    some.n = &number;
    static const uint32_t holes[] = {3, 10, 11, 12, 20, 21, 60, 61, 62, 63, 64, 65, 66, 90};
    for (uint32_t i = 0; i < sizeof holes / sizeof *holes;
         i++) { /* chunks in any order: by address */
        for (uint64_t k = 0; k < f.n[0]; k++) {
            uint64_t below = 0;
            for (uint64_t j = 0; j < f.n[0]; j++) {
                below += f.p[j] < f.p[k] && f.p[j] != NULL;
            }
            if (f.p[k] != NULL && below == holes[i] - i) {
                some.p = &f.p[k];
                assert_int_equal(free_all(&one, &some), WH_OK);
                break;
            }
        }
    }
    const fail_args a = {x.h, 300000, 1};
    assert_int_equal(fail_kernel(&one, &a), WH_OK);
    assert_int_equal(read_failures(&x, r, 4), 1);
    assert_int_equal(r[0].free_bytes, 14 * 16384);
    assert_int_equal(r[0].largest_free, 7 * 16384);
    assert_int_equal(r[0].class_bytes, 0);
    char text[300];
    assert_non_null(strstr(wh_record_text(r, text, sizeof text),
                           "OUT_OF_MEMORY: the heap was full, at tag 77, block 0, thread 0; "
                           "300000 bytes asked for, 229376 free, 114688 in a row"));
    drop(&x);
}

static void test_failures(void **state) {
    (void)state;
    failures_of(0);
    failures_of(1);
}

/* A heap that grows: the host has no more, or does not answer. */
static void test_growth(void **state) {
    (void)state;
    for (uint32_t late = 0; late < 4; late++) {
        wh_tessera_options own = WH_TESSERA_OPTIONS;
        wh_growth_options grows;
        const wh_sim_options sim = sim_of(0, WH_SIM_WEAK_NONE);
        memset(&grows, 0, sizeof grows);
        own.failure_records = 4;
        own.reserve_bytes = 16 * MIB;
        own.checked = late / 2;
        setup x = make(&sim, MIB, own);
        grows.max_bytes = 3 * MIB;
        grows.wait_us = late % 2 ? 1 : 1000000;
        grows.no_thread = late % 2;
        assert_int_equal(wh_heap_growth_start(x.heap, &grows), WH_OK);
        fill_args f = {x.h, take(x.device, 30000 * sizeof(void *)), take(x.device, 8), 30000, 3000,
                       16};
        const wh_launch one = grid(x.device, 1, 1);
        wh_record r[4];
        assert_int_equal(fill(&one, &f), WH_OK);
        assert_int_equal(read_failures(&x, r, 4), 1);
        assert_int_equal(r[0].kind,
                         late % 2 ? WH_RECORD_GROWTH_TIMED_OUT : WH_RECORD_GROWTH_REFUSED);
        assert_int_equal(r[0].bytes, 3000);
        /* Once more, now with freed blocks in quarantine: each failure counts once. */
        assert_int_equal(free_all(&one, &f), WH_OK);
        assert_int_equal(fill(&one, &f), WH_OK);
        wh_stats s;
        assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
        assert_int_equal(s.failed, 2);
        assert_int_equal(s.timed_out, late % 2 ? 2 : 0);
        if (own.checked != 0) {
            all_is_well(&x);
        }
        drop(&x);
    }
}

/* --- other calls ------------------------------------------------------------------------------ */

typedef struct look_args {
    wh_heap_ref h;
    uint64_t *out;
    void **p;
} look_args;

WH_KERNEL(look, look_args, a) {
    a.p[0] = wh_malloc(a.h, 13);
    a.p[1] = wh_malloc(a.h, 100000);
    a.p[2] = wh_aligned_alloc(a.h, 4096, 77);
    void *gone = wh_malloc(a.h, 500);
    wh_free(a.h, gone);
    a.out[0] = wh_usable_size(a.h, a.p[0]);
    a.out[1] = wh_usable_size(a.h, a.p[1]);
    a.out[2] = wh_usable_size(a.h, a.p[2]);
    a.out[3] = wh_usable_size(a.h, gone);
    a.out[4] = wh_usable_size(a.h, (unsigned char *)a.p[1] + 16);
    a.out[5] = wh_usable_size(a.h, a.out);
    a.out[6] = (uint64_t)(uintptr_t)a.p[2] % 4096;
    a.out[7] = (uint64_t)wh_owns(a.h, a.p[0]) + 2 * (uint64_t)wh_owns(a.h, a.out);
    unsigned char *grown = (unsigned char *)a.p[0];
    for (uint32_t i = 0; i < 13; i++) {
        grown[i] = (unsigned char)i;
    }
    grown = (unsigned char *)wh_realloc(a.h, grown, 60);
    a.out[8] = grown[0] == 0 && grown[12] == 12 && wh_usable_size(a.h, grown) == 60;
    a.p[0] = grown;
    a.out[9] = wh_realloc(a.h, grown, 60) == grown;
    a.out[10] = wh_malloc(a.h, 0) == NULL;
    const wh_pool_t pool = wh_pool_of(a.h, 50);
    void *q = wh_pool_malloc(pool);
    a.out[11] = wh_usable_size(a.h, q) == 50 && wh_pool_size(pool) == 50;
    wh_pool_free(pool, q);
}

typedef struct walked {
    uint64_t n, bytes;
    void **p;
    uint32_t known;
} walked;

static int visit(void *context, void *block, uint64_t bytes) {
    walked *w = context;
    w->n++;
    w->bytes += bytes;
    w->known += block == w->p[0] || block == w->p[1] || block == w->p[2];
    return 0;
}

static void test_other_calls(void **state) {
    (void)state;
    setup x = make_checked(0, WH_SIM_WEAK_NONE, 0);
    look_args a = {x.h, take(x.device, 16 * 8), take(x.device, 3 * sizeof(void *))};
    const wh_launch l = grid(x.device, 1, 1);
    assert_int_equal(look(&l, &a), WH_OK);
    static const uint64_t want[12] = {13, 100000, 77, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(a.out[i], want[i]);
    }
    wh_stats s;
    walked w = {0, 0, a.p, 0};
    assert_int_equal(wh_heap_get_stats(x.heap, &s), WH_OK);
    assert_int_equal(s.live_blocks, 3);
    assert_int_equal(s.used_bytes, 100000 + 77 + 60);
    assert_int_equal(wh_heap_walk(x.heap, visit, &w), WH_OK);
    assert_int_equal(w.n, 3);
    assert_int_equal(w.known, 3);
    assert_int_equal(w.bytes, s.used_bytes);
    uint64_t left = 0, found = 0;
    assert_int_equal(wh_heap_blocks_left(x.heap, 40, &left), WH_OK);
    assert_true(left > 10000 && left < 2 * MIB / 112);
    assert_int_equal(wh_heap_check_blocks(x.heap, 1, &found), WH_OK);
    assert_int_equal(found, 3);
    wh_record r[4];
    assert_int_equal(read_all(&x, r, 4), 3);
    assert_int_equal(r[0].kind, WH_RECORD_LEAK);
    all_is_well(&x);
    drop(&x);
}

/* A pointer to memory that the heap has given back to the device is only looked up. */
WH_KERNEL(free_stale, fill_args, a) {
    for (uint64_t i = 0; i < a.most; i++) {
        wh_free_at(a.h, a.p[i], WH_TAG(5));
    }
}

static void test_reserved(void **state) {
    (void)state;
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    const wh_sim_options sim = sim_of(0, WH_SIM_WEAK_NONE);
    own.checked = 1;
    own.reserve_bytes = 64 * MIB;
    own.quarantine_bytes = 1;
    setup x = make(&sim, MIB, own);
    fill_args f = {x.h, take(x.device, 30000 * sizeof(void *)), take(x.device, 8), 30000, 5000, 16};
    const wh_launch one = grid(x.device, 1, 1);
    wh_record r[64];
    uint64_t given = 0;
    assert_int_equal(wh_heap_extend(x.heap, 2 * MIB), WH_OK);
    assert_int_equal(fill(&one, &f), WH_OK);
    assert_true(f.n[0] > 300);
    void *const last = f.p[f.n[0] - 1], *const middle = f.p[f.n[0] / 2];
    all_is_well(&x);
    assert_int_equal(free_all(&one, &f), WH_OK);
    assert_int_equal(wh_heap_trim(x.heap, 0, &given), WH_OK);
    assert_true(given >= 2 * MIB);
    f.p[0] = last;
    f.p[1] = middle;
    f.most = 2;
    assert_int_equal(free_stale(&one, &f), WH_OK);
    const uint32_t n = read_all(&x, r, 64);
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(r[i].kind == WH_RECORD_STALE_FREE || r[i].kind == WH_RECORD_DOUBLE_FREE);
        assert_int_equal(r[i].site.line, 5);
    }
    assert_int_equal(wh_heap_extend(x.heap, given), WH_OK);
    f.most = 30000;
    assert_int_equal(fill(&one, &f), WH_OK);
    all_is_well(&x);
    drop(&x);
}

static wh_status create_with(wh_tessera_options own, wh_device *d, wh_heap **heap) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = 2 * MIB;
    o.options = &own.head;
    return wh_heap_create(heap, &o);
}

static void test_host_calls(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 0);
    wh_heap *heap = NULL;
    wh_record r;
    uint32_t n = 7;
    uint64_t counts[WH_RECORD_KINDS + 2];
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    own.checked = 3;
    assert_int_equal(create_with(own, d, &heap), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "tessera.checked"));
    own.checked = 1;
    own.violation_records = 65537;
    assert_int_equal(create_with(own, d, &heap), WH_BAD_ARGUMENT);
    own.violation_records = 0;
    own.checked = 0;
    assert_int_equal(create_with(own, d, &heap), WH_OK); /* a plain heap */
    assert_int_equal(wh_heap_violations(heap, &r, sizeof r, 1, &n), WH_UNSUPPORTED);
    assert_int_equal(n, 0);
    assert_int_equal(wh_heap_failures(heap, &r, sizeof r, 1, &n), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_check_blocks(heap, 0, NULL), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_record_counts(heap, counts, WH_RECORD_KINDS + 2), WH_OK);
    for (uint32_t i = 0; i < WH_RECORD_KINDS + 2; i++) {
        assert_int_equal(counts[i], 0);
    }
    wh_heap_destroy(heap);
    own.checked = 1;
    assert_int_equal(create_with(own, d, &heap), WH_OK);
    assert_int_equal(wh_heap_violations(heap, &r, sizeof r - 8, 1, &n), WH_WRONG_BUILD);
    assert_int_equal(wh_heap_violations(heap, NULL, sizeof r, 1, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_violations(heap, &r, sizeof r, 1, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_violations(NULL, &r, sizeof r, 1, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_violations(heap, NULL, sizeof r, 0, &n), WH_OK);
    assert_int_equal(wh_heap_record_counts(heap, NULL, 1), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_check_blocks(NULL, 0, NULL), WH_BAD_ARGUMENT);
    /* Kernels that are compiled without checks do not get the handle. */
    wh_handle_kind kind;
    wh_heap_ref h;
    memset(&kind, 0, sizeof kind);
    kind.struct_bytes = sizeof kind;
    kind.allocator = "tessera";
    kind.handle_bytes = sizeof h;
    kind.version = WH_VERSION;
    kind.target = WH_TARGET_ANY;
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &h), WH_WRONG_BUILD);
    assert_non_null(strstr(wh_last_error_text(), "WH_CHECKED"));
    kind.checks = 1;
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &h), WH_OK);
    kind.struct_bytes = offsetof(wh_handle_kind, checks);
    assert_int_equal(wh_heap_copy_handle(heap, &kind, &h), WH_WRONG_BUILD);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static void test_text(void **state) {
    (void)state;
    wh_record r;
    char text[300], cut[20];
    memset(&r, 0, sizeof r);
    r.kind = WH_RECORD_OVERRUN;
    r.block = 3;
    r.thread = 401;
    r.address = 0x1000;
    r.bytes = 48;
    r.offset = 49;
    (void)strcpy(r.site.file, "a/b.cu");
    r.site.line = 12;
    r.allocated.line = 9;
    assert_string_equal(wh_record_text(&r, text, sizeof text),
                        "OVERRUN: something was written behind the end of a block, at a/b.cu:12, "
                        "block 3, thread 401; address 0x1000, block of 48 bytes, offset 49, "
                        "allocated at tag 9");
    assert_string_equal(wh_record_text(&r, cut, sizeof cut), "OVERRUN: something ");
    r.thread = WH_UNKNOWN;
    assert_null(strstr(wh_record_text(&r, text, sizeof text), "thread"));
    assert_string_equal(wh_record_text(&r, NULL, 10), "");
    assert_string_equal(wh_record_text(NULL, text, sizeof text), "");
    r.kind = WH_RECORD_KINDS;
    assert_string_equal(wh_record_text(&r, text, sizeof text), "");
    assert_string_equal(wh_record_name(WH_RECORD_LEAK), "LEAK");
    assert_string_equal(wh_record_name(WH_RECORD_KINDS), "");
    assert_int_equal(wh_record_status(WH_RECORD_LEAK), WH_CORRUPT);
    assert_int_equal(wh_record_status(WH_RECORD_KINDS), WH_BAD_ARGUMENT);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bugs),           cmocka_unit_test(test_hands),
        cmocka_unit_test(test_stays_away),     cmocka_unit_test(test_full),
        cmocka_unit_test(test_never_null),     cmocka_unit_test(test_full_list),
        cmocka_unit_test(test_read_meanwhile), cmocka_unit_test(test_trap),
        cmocka_unit_test(test_trap_many),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_state_of_heap),  cmocka_unit_test(test_growth),
        cmocka_unit_test(test_other_calls),    cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_host_calls),     cmocka_unit_test(test_text),
        cmocka_unit_test(test_too_large),      cmocka_unit_test(test_warps_stay_away),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
