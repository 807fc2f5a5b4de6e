/* pressure.c: cases: threads that meet over the last memory, enough of it or too little. */
#include "case.h"

/* Creates a heap, hardly larger than need be, that holds `units` blocks of up to max bytes
 * whatever lies where: `pinned` bytes for each if sizes are mixed, else one unit. 0: that
 * heap would be too large to be worth it. */
static int make_tight_heap(context *x, uint64_t units, uint64_t max, int mixed) {
    uint64_t bytes = 0;
    for (;;) {
        uint64_t least = 0;
        suite_layout l;
        wh_heap_options o = x->options;
        wh_any_options own = x->own;
        o.options = x->options.options != NULL ? &own.head : NULL;
        if (x->segment != 0) {
            set_option(&o, &own, "segment_bytes", x->segment);
        }
        OK(x, wh_heap_min_bytes(&o, &least));
        make_heap(x, bytes > least ? bytes : least);
        CHECK(x, layout_of(x, max, &l)); /* may depend on the size of the heap */
        const uint64_t times = mixed && l.apart != 0 && x->workers > 1 ? l.apart : 1;
        const uint64_t want = units * (mixed ? times * l.pinned : l.unit) + l.rest + l.kept;
        if (x->data >= want) {
            return 1;
        }
        bytes = x->options.bytes + (want - x->data) + 64;
        if (bytes > (uint64_t)(is_wide(x) ? 128 : 16) << 20) {
            return 0;
        }
    }
}

/* All threads together never ask for more than fits: NULL is an error. Sizes of one
 * class, then mixed ones, each in the smallest heap that must do. */
static void check_never_null(context *x, uint64_t min, uint64_t max, int mixed) {
    suite_layout l;
    if (!layout_of(x, max, &l)) {
        return;
    }
    x->call.hold = 1 + (uint32_t)(random_of(x) % CONFORM_HOLD);
    x->segment = l.segment; /* a larger heap would have larger ones */
    if (!make_tight_heap(x, (uint64_t)x->workers * x->call.hold, max, mixed)) {
        return;
    }
    x->call.min_size = min;
    x->call.max_size = max;
    x->call.steps = 30;
    x->call.strict = 1;
    RUN(x, churn);
    CHECK(x, x->result.served > 0);
    check_empty(x);
    CHECK_EQUAL(x, stats(x).failed, 0);
}

void case_never_null(context *x) {
    suite_layout l;
    if (layout_of(x, 1, &l) && l.segment != 0) {
        const uint64_t sizes[] = {16,       l.slices, l.slices + 1, l.segment / 4, l.segment / 2,
                                  l.segment};
        const uint64_t n = sizes[random_of(x) % 6];
        check_never_null(x, n, n, 0);
        check_never_null(x, 1, random_of(x) % 2 ? l.segment : l.slices, 1);
    } else {
        check_never_null(x, 64, 64, 0);
    }
}

/* Far more is asked for than there is, by all threads at once and in all sizes. */
static void churn_call(context *x) {
    x->call.min_size = 1;
    x->call.max_size = 1 + some_max(x);
    x->call.steps = 24;
    x->call.hold = CONFORM_HOLD;
    x->call.strict = 0;
}

/* Lanes of a warp that call with different masks. */
void case_places(context *x) {
    churn_call(x);
    RUN(x, churn_two);
    CHECK(x, x->result.served > 0);
    check_empty(x);
}

/* Every call comes to an end, and nothing is lost. */
void case_pressure(context *x) {
    churn_call(x);
    RUN(x, churn);
    CHECK(x, x->result.served > 0);
    check_empty(x);
    if (can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS)) { /* all of it is there again */
        const wh_launch l = alone(x);
        make_items(x, 1);
        CHECK_EQUAL(x, stats(x).largest_free, x->data);
        x->sizes[0] = x->data;
        PUSH(x, sizes);
        RUN(x, allocate);
        CHECK_EQUAL(x, x->result.served, 1);
        RUN(x, release);
        check_empty(x);
        together(x, l);
    }
}
