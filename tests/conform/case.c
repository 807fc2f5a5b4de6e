/* case.c: the context of a run of a case: checks, arrays, kernels, heaps (case.h). */
#include <stdarg.h>

#include "case.h"

const shape shapes[N_SHAPES] = {
    {1, 1, ~0u, 0, "one thread"},
    {2, 64, ~0u, 0, "uniform"},
    {2, 64, ~0u, 1, "divergent"},
    {4, 64, 1u << 9, 0, "one lane per warp"},
    {2, 96, 0x5a3c0f71u, 1, "odd mask"},
    {3, 45, ~0u, 1, "partial warps"},
    {3, 45, 0x00001b6du, 0, "partial warps, odd mask"},
    {8, 7, ~0u, 0, "blocks of 7 threads"},
    {1, 1024, ~0u, 0, "blocks of 1024 threads"},
};

void fail(context *x, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(x->text, sizeof x->text, format, args);
    va_end(args);
    longjmp(x->failed, 1);
}

void ok(context *x, wh_status s, const char *what) {
    if (s != WH_OK) {
        fail(x, "%s: %s (%s)", what, wh_status_name(s),
             s == WH_DEVICE_ERROR ? wh_device_error_text(x->device) : wh_status_text(s));
    }
}

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

uint64_t random_of(context *x) {
    return suite_random(&x->random);
}

int can(const context *x, uint32_t caps) {
    return (x->info->caps & caps) == caps;
}

/* --- device arrays ---------------------------------------------------------------------------- */

void *device_take(context *x, uint64_t bytes) {
    void *p = NULL;
    OK(x, wh_device_alloc(x->device, &p, bytes));
    OK(x, wh_device_set(x->device, p, 0, bytes));
    return p;
}

#define ARRAYS(X) X(ptrs) X(sizes) X(usable) X(aligns) X(sizes2) X(order)

void free_items(context *x) {
#define FREE_(array)                                \
    (void)wh_device_free(x->device, x->call.array); \
    free(x->array);                                 \
    x->call.array = NULL;                           \
    x->array = NULL;
    ARRAYS(FREE_)
#undef FREE_
    x->room = 0;
}

void make_items(context *x, uint64_t n) {
    free_items(x);
    x->room = n;
    x->call.n = n;
#define TAKE_(array)                                           \
    x->call.array = device_take(x, n * sizeof *x->call.array); \
    x->array = calloc(n, sizeof *x->array);                    \
    CHECK(x, x->array != NULL);
    ARRAYS(TAKE_)
#undef TAKE_
    for (uint64_t i = 0; i < n; i++) {
        x->order[i] = (uint32_t)i;
    }
    OK(x, wh_device_copy_in(x->device, x->call.order, x->order, n * sizeof *x->order));
}

void shuffle(context *x) {
    for (uint64_t i = x->call.n; i > 1; i--) {
        const uint64_t j = random_of(x) % i;
        const uint32_t t = x->order[i - 1];
        x->order[i - 1] = x->order[j];
        x->order[j] = t;
    }
    PUSH(x, order);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static const char *const error_texts[] = {"no error",
#define TEXT_(name, text) text,
                                          CONFORM_ERROR_LIST(TEXT_)
#undef TEXT_
};

void run(context *x, conform_launcher kernel, const char *name) {
    memset(&x->result, 0, sizeof x->result);
    OK(x, wh_device_copy_in(x->device, x->call.result, &x->result, sizeof x->result));
    ok(x, kernel(&x->launch, &x->call), name);
    ok(x, wh_device_sync(x->device), name);
    OK(x, wh_device_copy_out(x->device, &x->result, x->call.result, sizeof x->result));
    if (x->result.errors != 0) {
        const uint64_t item = x->result.first_item;
        fail(x, "kernel %s: %s (item %" PRIu64 " of size %" PRIu64 "; %" PRIu64 " errors)", name,
             error_texts[x->result.first_error], item,
             x->sizes != NULL && item < x->room ? x->sizes[item] : 0, x->result.errors);
    }
}
wh_launch alone(context *x) {
    const wh_launch l = x->launch;
    x->launch.blocks = 1;
    x->launch.threads = 1;
    x->call.lanes = ~0u;
    x->call.divergent = 0;
    return l;
}

void together(context *x, wh_launch l) {
    x->launch = l;
    x->call.lanes = shapes[x->shape].lanes;
    x->call.divergent = shapes[x->shape].divergent;
}

uint64_t allocate_one(context *x, uint64_t item, uint64_t size) {
    x->sizes[item] = size;
    PUSH(x, sizes);
    x->order[0] = (uint32_t)item;
    PUSH(x, order);
    x->call.n = 1;
    RUN(x, allocate);
    x->call.n = x->room;
    return x->result.served;
}

void release_one(context *x, uint64_t item) {
    x->order[0] = (uint32_t)item;
    PUSH(x, order);
    x->call.n = 1;
    RUN(x, release);
    x->call.n = x->room;
}

/* --- heaps ------------------------------------------------------------------------------------ */

wh_stats stats(context *x) {
    wh_stats s;
    OK(x, wh_heap_get_stats(x->heap, &s));
    return s;
}

void inspect(context *x) {
    wh_report r;
    if (can(x, WH_CAP_CHECK)) {
        const wh_status s = wh_heap_check(x->heap, &r);
        if (s != WH_OK) {
            fail(x, "wh_heap_check: %s, %" PRIu64 " errors, first I%" PRIu64 " at %" PRIu64,
                 wh_status_name(s), r.errors, r.first_tag, r.first_where);
        }
    }
}

void drop_heap(context *x) {
    char text[400];
    if (x->checked && x->heap != NULL && x->text[0] == '\0' &&
        suite_violations(x->heap, text, sizeof text)) {
        (void)snprintf(x->text, sizeof x->text, "%s", text);
    }
    wh_heap_destroy(x->heap);
    (void)wh_device_free(x->device, x->raw);
    x->heap = NULL;
    x->raw = NULL;
    x->options.memory = NULL;
}

void make_heap(context *x, uint64_t bytes) {
    drop_heap(x);
    memset(&x->options, 0, sizeof x->options);
    x->options.device = x->device;
    x->options.allocator = x->info->name;
    x->options.bytes = bytes;
    suite_options(&x->options, &x->own, x->config);
    if (x->checked) {
        suite_check(&x->options, &x->own);
    }
    if (x->segment != 0) {
        set_option(&x->options, &x->own, "segment_bytes", x->segment);
    }
    x->options.memory = suite_memory(x->device, bytes, random_of(x), &x->raw);
    CHECK(x, x->options.memory != NULL);
    OK(x, wh_device_set(x->device, x->options.memory, 0xee, bytes));
    OK(x, wh_heap_create(&x->heap, &x->options));
    OK(x, x->kernels->bind(x->heap, &x->call.heap));
    x->call.low = (uint64_t)(uintptr_t)x->options.memory;
    x->call.high = x->call.low + bytes;
    x->data = 0;
    x->largest = UINT64_MAX;
    if (can(x, WH_CAP_STATS)) {
        const wh_stats s = stats(x);
        CHECK_EQUAL(x, s.heap_bytes, bytes);
        CHECK_EQUAL(x, s.used_bytes, 0);
        CHECK_EQUAL(x, s.failed, 0);
        CHECK_EQUAL(x, s.bad_frees, 0);
        CHECK(x, s.live_blocks == 0 || s.live_blocks == WH_UNKNOWN);
        x->data = bytes - s.metadata_bytes;
        x->largest = can(x, WH_CAP_ANY_SIZE) ? UINT64_MAX : s.largest_free;
    }
    inspect(x);
}

int is_bump(const context *x) {
    return strncmp(x->info->name, "bump", 4) == 0;
}

int layout_of(const context *x, uint64_t n, suite_layout *l) {
    return suite_layout_of(&x->options, n, l);
}

uint64_t capped(const context *x, uint64_t n) {
    return n < x->info->max_size ? n : x->info->max_size;
}

uint64_t random_size(context *x, uint64_t max) {
    return suite_random_size(&x->random, capped(x, max));
}

uint64_t some_max(context *x) {
    const uint64_t choices[] = {64, 512, 3000, x->options.bytes / 20};
    return capped(x, choices[random_of(x) % 4] + 1) - 1;
}

int mixed_items(context *x, uint64_t n, uint64_t max) {
    uint64_t pinned = 0, kept = 0;
    int known = 1;
    make_items(x, n);
    for (uint64_t k = 0; k < n; k++) {
        suite_layout l;
        x->sizes[k] = random_of(x) % 16 == 0 ? 0 : random_size(x, max);
        known &= layout_of(x, x->sizes[k], &l);
        /* Runs of segments may meet fragmentation. */
        known &= l.segment == 0 || x->sizes[k] <= l.segment;
        pinned += x->sizes[k] != 0 ? l.pinned : 0;
        kept = l.kept > kept ? l.kept : kept;
    }
    PUSH(x, sizes);
    return known && pinned + kept <= x->data;
}

uint64_t some_items(context *x) {
    return 1 + random_of(x) % (2 * (uint64_t)x->workers + 8);
}

void check_used(context *x) {
    inspect(x);
    if (!can(x, WH_CAP_STATS)) {
        return;
    }
    const wh_stats s = stats(x);
    uint64_t used = 0, live = 0;
    PULL(x, ptrs);
    PULL(x, usable);
    for (uint64_t k = 0; k < x->room; k++) {
        used += x->ptrs[k] != NULL ? x->usable[k] : 0;
        live += x->ptrs[k] != NULL;
    }
    if (can(x, WH_CAP_USABLE_SIZE)) {
        CHECK_EQUAL(x, s.used_bytes, used);
    } else if (!can(x, WH_CAP_FREE)) {
        CHECK(x, s.used_bytes >= used);
    }
    if (s.live_blocks != WH_UNKNOWN) {
        CHECK_EQUAL(x, s.live_blocks, live);
    }
    uint64_t in_classes = 0;
    for (uint32_t i = 0; i < s.n_classes; i++) {
        CHECK(x, s.classes[i].live <= s.classes[i].capacity);
        in_classes += s.classes[i].live;
    }
    CHECK(x, in_classes <= live);
}

void check_empty(context *x) {
    inspect(x);
    if (can(x, WH_CAP_STATS)) {
        const wh_stats s = stats(x);
        CHECK_EQUAL(x, s.used_bytes, 0);
        CHECK_EQUAL(x, s.live_blocks, 0);
        for (uint32_t i = 0; i < s.n_classes; i++) {
            CHECK_EQUAL(x, s.classes[i].live, 0);
        }
    }
}

void wear(context *x) {
    const uint64_t room = x->room, n = x->call.n, old_min = x->call.min_size,
                   old_max = x->call.max_size;
    CHECK(x, can(x, WH_CAP_FREE));
    x->call.min_size = 1;
    x->call.max_size = 1 + some_max(x);
    x->call.steps = 8;
    x->call.hold = 2;
    x->call.strict = 0;
    RUN(x, churn);
    check_empty(x);
    x->call.min_size = old_min;
    x->call.max_size = old_max;
    CHECK(x, room == x->room && n == x->call.n);
}
