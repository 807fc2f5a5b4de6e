/* misuse.c: places of other arenas, places that do not hold any more, and closed arenas: assertions
 * find them, and the hostile build finds those, too, that only look right. Each has a kernel that
 * must end with an error, and one like it that must not. */
#undef WH_ASSERTS
#define WH_ASSERTS 1
#include "sim/sim_test.h"

#include "warpheap/arena.h"

typedef struct args {
    wh_heap_ref heap;
    uint32_t what, wrong;
} args;

/* X(what, "found by": 1: every build with assertions, 2: the hostile build) */
#define MISTAKES(X)                                                       \
    X(OTHER_ARENA, 1)  /* a place of another arena */                     \
    X(OTHER_EMPTY, 2)  /* that had no piece then */                       \
    X(STALE_PIECE, 1)  /* the piece that the place is in has gone back */ \
    X(STALE_AT, 1)     /* it lies behind where the arena is */            \
    X(STALE_HIDDEN, 2) /* and the arena has come there again */           \
    X(TWICE, 1)        /* closed twice */                                 \
    X(MALLOC_AFTER, 1) X(MARK_AFTER, 1) X(REWIND_AFTER, 1)
typedef enum mistake {
#define MISTAKE_(what, by) what,
    MISTAKES(MISTAKE_)
#undef MISTAKE_
        N_MISTAKES
} mistake;
static const uint32_t found_by[] = {
#define MISTAKE_(what, by) by,
    MISTAKES(MISTAKE_)
#undef MISTAKE_
};

/* The second of two marks is the wrong one, if the arena is rewound to the first. */
WH_FN void stale(const args *a, wh_arena *arena) {
    const size_t large = 3000;
    (void)wh_arena_malloc(a->heap, arena, 16);
    const wh_arena_place first = wh_arena_mark(arena);
    (void)wh_arena_malloc(a->heap, arena, a->what == STALE_PIECE ? large : 32);
    const wh_arena_place second = wh_arena_mark(arena);
    if (a->wrong) {
        wh_arena_rewind(a->heap, arena, first);
        if (a->what == STALE_HIDDEN) {
            (void)wh_arena_malloc(a->heap, arena, 48);
        }
    }
    (void)wh_arena_malloc(a->heap, arena, 16);
    if (a->what == STALE_AT && a->wrong) {
        wh_arena_rewind(a->heap, arena, first);
    }
    wh_arena_rewind(a->heap, arena, second);
    wh_arena_rewind(a->heap, arena, first);
}

WH_FN void other(const args *a, wh_arena *arena) {
    wh_arena another = wh_arena_open(0, 0);
    const size_t n = a->what == OTHER_EMPTY ? 0 : 16;
    (void)wh_arena_malloc(a->heap, &another, n);
    (void)wh_arena_malloc(a->heap, arena, n);
    const wh_arena_place mine = wh_arena_mark(arena), its = wh_arena_mark(&another);
    wh_arena_rewind(a->heap, arena, a->wrong ? its : mine);
    wh_arena_close(a->heap, &another);
}

WH_FN void closed(const args *a, wh_arena *arena) {
    const wh_arena_place start = wh_arena_mark(arena);
    (void)wh_arena_malloc(a->heap, arena, 16);
    if (a->wrong) {
        wh_arena_close(a->heap, arena);
    }
    if (a->what == MALLOC_AFTER) {
        (void)wh_arena_malloc(a->heap, arena, 16);
    } else if (a->what == MARK_AFTER) {
        (void)wh_arena_mark(arena);
    } else if (a->what == REWIND_AFTER) {
        wh_arena_rewind(a->heap, arena, start);
    }
}

WH_KERNEL(lane_misuse, args, a) {
    wh_arena arena = wh_arena_open(512, 1024);
    if (a.what == OTHER_ARENA || a.what == OTHER_EMPTY) {
        other(&a, &arena);
    } else if (a.what < TWICE) {
        stale(&a, &arena);
    } else {
        closed(&a, &arena);
    }
    wh_arena_close(a.heap, &arena);
}

/* The same of other scopes, in which the same checks stand. */
WH_KERNEL(warp_misuse, args, a) {
    wh_warp_arena arena = wh_warp_arena_open(WH_FULL_WARP, 512, 1024);
    (void)wh_warp_arena_malloc(a.heap, &arena, 16);
    const wh_arena_place first = wh_warp_arena_mark(&arena);
    (void)wh_warp_arena_malloc(a.heap, &arena, 300);
    const wh_arena_place second = wh_warp_arena_mark(&arena);
    if (a.what == TWICE || a.what == MALLOC_AFTER) {
        if (a.wrong) {
            wh_warp_arena_close(a.heap, &arena);
        }
        if (a.what == MALLOC_AFTER) {
            (void)wh_warp_arena_malloc(a.heap, &arena, 16);
        }
    } else {
        wh_warp_arena_rewind(a.heap, &arena, a.wrong ? first : second);
        wh_warp_arena_rewind(a.heap, &arena, second);
    }
    wh_warp_arena_close(a.heap, &arena);
}

WH_KERNEL(block_misuse, args, a) {
    WH_SHARED(wh_block_arena, arena, 1);
    wh_block_arena_open(a.heap, arena, 512, 1024);
    (void)wh_block_arena_malloc(a.heap, arena, 16);
    const wh_arena_place first = wh_block_arena_mark(arena);
    (void)wh_block_arena_malloc(a.heap, arena, 300);
    const wh_arena_place second = wh_block_arena_mark(arena);
    if (a.what == TWICE || a.what == MALLOC_AFTER) {
        if (a.wrong) {
            wh_block_arena_close(a.heap, arena);
        }
        if (a.what == MALLOC_AFTER) {
            (void)wh_block_arena_malloc(a.heap, arena, 16);
        }
    } else {
        wh_block_arena_rewind(a.heap, arena, a.wrong ? first : second);
        wh_block_arena_rewind(a.heap, arena, second);
    }
    wh_block_arena_close(a.heap, arena);
}

typedef wh_status (*kernel)(const wh_launch *launch, const args *a);

static void expect(kernel k, mistake what, uint32_t threads) {
    for (uint32_t wrong = 0; wrong < 2; wrong++) {
        wh_device *device = open_policy(WH_SIM_RANDOM, 3);
        wh_heap_options o;
        wh_heap *heap = NULL;
        args a;
        memset(&o, 0, sizeof o);
        o.device = device;
        o.bytes = 8u << 20;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        a.what = what;
        a.wrong = wrong;
        const wh_launch l = grid(device, 1, threads);
        const wh_status s = k(&l, &a);
        if (!wrong) {
            if (s != WH_OK) {
                fail_msg("%u: %s", (unsigned)what, wh_device_error_text(device));
            }
            assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
        } else if (s == WH_OK) {
            fail_msg("mistake %u is not found", (unsigned)what);
        } else {
            assert_non_null(strstr(wh_device_error_text(device), "not so: "));
        }
        (void)wh_heap_destroy(heap);
        wh_device_close(device);
    }
}

#ifdef WH_HOSTILE
#define IS_HOSTILE 2u
#else
#define IS_HOSTILE 1u
#endif

static void test_lane(void **state) {
    (void)state;
    for (uint32_t what = 0; what < N_MISTAKES; what++) {
        if (found_by[what] <= IS_HOSTILE) {
            expect(lane_misuse, (mistake)what, 1);
        }
    }
}

static void test_others(void **state) {
    static const mistake some[] = {STALE_AT, TWICE, MALLOC_AFTER};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        expect(warp_misuse, some[i], 32);
        expect(block_misuse, some[i], 64);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lane), cmocka_unit_test(test_others)};
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
