/* checked_sites.c: WH_SITES: every call tells a checked heap its file and line, those that allocate
 * and those that free; and a heap that keeps records of failures, where it was full. With WH_ON_OOM
 * at the same time. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

static uint32_t n_events, event_line;
#define WH_ON_OOM(event) (n_events++, event_line = (event).line)
#define WH_SITES 1
#include "warpheap/warpheap.h"

#include "warpheap/arena.h"
#include "warpheap/options.h"
#include "warpheap/records.h"

#define MIB ((uint64_t)1 << 20)

typedef struct call_args {
    wh_heap_ref h;
    wh_pool_t pool;
    uint32_t *lines; /* of the calls that allocate, free, and free again */
    size_t n;
    uint32_t which;
} call_args;

#define MAKERS 12u
#define FREERS 7u
#define AT(place, call) (a->lines[place] = __LINE__, (call))

WH_FN void *allocate(const call_args *a) {
    switch (a->which % MAKERS) {
    case 0:
        return AT(0, wh_malloc(a->h, a->n));
    case 1:
        return AT(0, wh_calloc(a->h, a->n, 1));
    case 2:
        return AT(0, wh_realloc(a->h, NULL, a->n));
    case 3:
        return AT(0, wh_aligned_alloc(a->h, 64, a->n));
    case 4:
        return AT(0, wh_malloc_lanes(a->h, wh_activemask(), a->n));
    case 5:
        return AT(0, wh_malloc_warp(a->h, wh_activemask(), a->n));
    case 6:
        return AT(0, wh_malloc_block(a->h, a->n));
    case 7:
        return AT(0, wh_calloc_warp(a->h, wh_activemask(), a->n, 1));
    case 8:
        return AT(0, wh_calloc_block(a->h, a->n, 1));
    case 9:
        return AT(0, wh_pool_malloc(a->pool));
    case 10:
        return AT(0, wh_pool_malloc_lanes(a->pool, wh_activemask()));
    default:
        return AT(0, wh_pool_malloc_warp(a->pool, wh_activemask()));
    }
}

WH_FN void give(const call_args *a, uint32_t which, void *p, uint32_t place) {
    switch (which) {
    case 0:
        AT(place, wh_free(a->h, p));
        break;
    case 1:
        AT(place, wh_free_lanes(a->h, wh_activemask(), p));
        break;
    case 2:
        AT(place, wh_free_warp(a->h, wh_activemask(), p));
        break;
    case 3:
        AT(place, wh_free_block(a->h, p));
        break;
    case 4:
        AT(place, wh_pool_free(a->pool, p));
        break;
    case 5:
        AT(place, wh_pool_free_lanes(a->pool, wh_activemask(), p));
        break;
    default:
        AT(place, wh_pool_free_warp(a->pool, wh_activemask(), p));
        break;
    }
}

/* One lane. */
WH_KERNEL(twice, call_args, a) {
    void *p = allocate(&a);
    give(&a, a.which % FREERS, p, 1);
    give(&a, (a.which + 1) % FREERS, p, 2);
}
WH_KERNEL(too_much, call_args, a) {
    if (allocate(&a) != NULL) {
        wh_trap("there is no memory for it");
    }
}

/* An arena that nobody closes. One lane. */
WH_KERNEL(leave_arena, call_args, a) {
    wh_arena arena = wh_arena_open(1024, 4096);
    if (wh_arena_malloc(a.h, &arena, a.n) == NULL) {
        wh_trap("there is no memory for it");
    }
}

static int is_here(const wh_record_site *site, uint32_t line) {
    const char *file = "unit/checked_sites.c";
    const size_t n = strlen(site->file), m = strlen(file);
    return n >= m && strcmp(site->file + n - m, file) == 0 && site->line == line;
}

static wh_heap *create(wh_device *d, uint64_t checked) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    own.checked = checked;
    own.failure_records = 8;
    o.device = d;
    o.bytes = 4 * MIB;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void test_violations(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 0);
    wh_heap *heap = create(d, 1);
    call_args a;
    a.n = 40;
    a.lines = take(d, 3 * sizeof(uint32_t));
    assert_int_equal(wh_heap_handle(heap, &a.h), WH_OK);
    assert_int_equal(wh_pool_make(heap, a.n, &a.pool), WH_OK);
    const wh_launch one = grid(d, 1, 1);
    for (a.which = 0; a.which < MAKERS * FREERS; a.which++) {
        wh_record r;
        uint32_t n = 0;
        assert_int_equal(twice(&one, &a), WH_OK);
        assert_int_equal(wh_heap_violations(heap, &r, sizeof r, 1, &n), WH_OK);
        assert_int_equal(n, 1);
        assert_int_equal(r.kind, WH_RECORD_DOUBLE_FREE);
        assert_int_equal(r.bytes, 40);
        assert_true(is_here(&r.allocated, a.lines[0]));
        assert_true(is_here(&r.freed, a.lines[1]));
        assert_true(is_here(&r.site, a.lines[2]));
    }
    assert_int_equal(n_events, 0);
    wh_heap_destroy(heap);
    wh_device_close(d);
}

static void test_failures(void **state) {
    (void)state;
    for (uint64_t checked = 0; checked < 2; checked++) {
        wh_device *d = open_policy(WH_SIM_RANDOM, 0);
        wh_heap *heap = create(d, checked);
        call_args a;
        a.lines = take(d, 3 * sizeof(uint32_t));
        a.n = 4 * MIB - 1; /* a pool may be of as much */
        assert_int_equal(wh_heap_handle(heap, &a.h), WH_OK);
        assert_int_equal(wh_pool_make(heap, a.n, &a.pool), WH_OK);
        const wh_launch one = grid(d, 1, 1);
        for (a.which = 0; a.which < MAKERS; a.which++) {
            wh_record r[2];
            uint32_t n = 0;
            n_events = 0;
            assert_int_equal(too_much(&one, &a), WH_OK);
            assert_int_equal(wh_heap_failures(heap, r, sizeof *r, 2, &n), WH_OK);
            assert_int_equal(n, 1);
            assert_true(WH_RECORD_IS_FAILURE(r[0].kind));
            assert_int_equal(r[0].bytes, a.n);
            assert_true(is_here(&r[0].site, a.lines[0]));
            assert_int_equal(n_events, 1);
            assert_int_equal(event_line, a.lines[0]);
        }
        wh_heap_destroy(heap);
        wh_device_close(d);
    }
}

/* Pieces of arenas are allocated by the library itself. */
static void test_arena(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_RANDOM, 0);
    wh_heap *heap = create(d, 1);
    wh_record r;
    uint32_t n = 0;
    call_args a;
    memset(&a, 0, sizeof a);
    a.n = 40;
    assert_int_equal(wh_heap_handle(heap, &a.h), WH_OK);
    const wh_launch one = grid(d, 1, 1);
    assert_int_equal(leave_arena(&one, &a), WH_OK);
    assert_int_equal(wh_heap_check_blocks(heap, 1, NULL), WH_OK);
    assert_int_equal(wh_heap_violations(heap, &r, sizeof r, 1, &n), WH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(r.kind, WH_RECORD_LEAK);
    assert_non_null(strstr(r.allocated.file, "arena_pieces.h"));
    wh_heap_destroy(heap);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_violations),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
