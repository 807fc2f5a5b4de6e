/* source.c: heaps whose memory comes from two functions of the caller's: what these are asked for
 * and get back, of a device that has no memory of its own; every call that fails, at each of its
 * requests, leaves nothing behind; the stream; memory at a wrong place; options that contradict
 * each other. */
#include "sim/sim_test.h"

#include "warpheap/options.h"
#include "warpheap/warpheap.h"

#define HEAP_BYTES ((uint64_t)4 << 20)
#define MOST 64u
#define N_BLOCKS 100u

typedef struct piece {
    unsigned char *p;
    uint64_t bytes;
} piece;

/* What the two functions know. */
typedef struct source {
    piece pieces[MOST];
    uint32_t n;        /* pieces that are out */
    uint32_t takes;    /* so far */
    uint32_t fail;     /* the take with this number fails, from 1 on */
    uint64_t off;      /* pieces begin so many bytes too late */
    void *take_stream; /* of the last call */
    void *give_stream;
} source;

static void *source_take(uint64_t bytes, uint64_t align, void *stream, void *user) {
    source *s = user;
    s->take_stream = stream;
    assert_true(bytes > 0 && align == 256);
    if (++s->takes == s->fail) {
        return NULL;
    }
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, align, bytes + s->off), 0);
    memset(p, 0xa5, bytes + s->off);
    assert_true(s->n < MOST);
    const piece new = {(unsigned char *)p + s->off, bytes};
    s->pieces[s->n++] = new;
    return new.p;
}

static void source_give(void *p, uint64_t bytes, void *stream, void *user) {
    source *s = user;
    s->give_stream = stream;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->pieces[i].p == p) {
            assert_int_equal(s->pieces[i].bytes, bytes);
            free(s->pieces[i].p - s->off);
            s->pieces[i] = s->pieces[--s->n];
            return;
        }
    }
    fail_msg("%p was not given, or has come back before", p);
}

/* A device whose memory would be too small for any heap. */
static wh_device *open_empty(void) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.memory_bytes = 1;
    return open_with(&o);
}

static wh_heap_options options(wh_device *d, source *s, const char *allocator) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = HEAP_BYTES;
    o.allocator = allocator;
    o.source.alloc = source_take;
    o.source.free = source_give;
    o.source.user = s;
    return o;
}

typedef struct work_args {
    wh_heap_ref heap;
    unsigned char **blocks;
} work_args;

WH_KERNEL(work, work_args, a) {
    for (uint64_t i = wh_thread_id(); i < N_BLOCKS; i += wh_grid_threads()) {
        wh_free(a.heap, a.blocks[i]);
        a.blocks[i] = (unsigned char *)wh_malloc(a.heap, i + 1);
        if (a.blocks[i] != NULL) {
            a.blocks[i][0] = a.blocks[i][i] = (unsigned char)i;
        }
    }
}

static int count(void *n, void *block, uint64_t usable_bytes) {
    ++*(uint32_t *)n;
    assert_true(block != NULL && usable_bytes > 0);
    return 0;
}

static void test_all_memory(void **state) {
    (void)state;
    unsigned char *blocks[N_BLOCKS] = {NULL};
    uint32_t visited = 0;
    source own = {.n = 0};
    wh_device *d = open_empty();
    const wh_heap_options o = options(d, &own, NULL);
    wh_heap *heap = NULL;
    wh_stats stats;
    work_args a;
    void *base = NULL;
    uint64_t bytes = 0;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(own.n, 1);
    assert_int_equal(own.pieces[0].bytes, HEAP_BYTES);
    assert_int_equal(wh_heap_memory(heap, &base, &bytes), WH_OK);
    assert_ptr_equal(base, own.pieces[0].p);
    assert_int_equal(bytes, HEAP_BYTES);
    assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
    a.blocks = blocks;
    const wh_launch l = grid(d, 2, 32);
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(work(&l, &a), WH_OK);
        for (uint32_t i = 0; i < N_BLOCKS; i++) {
            assert_true(blocks[i] >= (unsigned char *)base &&
                        blocks[i] + i < (unsigned char *)base + HEAP_BYTES);
        }
    }
    assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, N_BLOCKS);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_walk(heap, count, &visited), WH_OK);
    assert_int_equal(visited, N_BLOCKS);
    assert_int_equal(own.n, 2); /* the heap, and what answers lie in */
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    assert_int_equal(own.n, 0);
    wh_device_close(d);
}

/* The stream of the call comes with the request; without one it is the default stream. */
static void test_stream(void **state) {
    (void)state;
    source own = {.n = 0};
    wh_device *d = open_empty();
    const wh_heap_options o = options(d, &own, NULL);
    wh_heap *heap = NULL;
    wh_stats stats;
    uint32_t visited = 0;
    void *stream = NULL;
    assert_int_equal(wh_stream_create(d, &stream), WH_OK);
    own.take_stream = own.give_stream = stream;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_null(own.take_stream);
    assert_int_equal(wh_heap_get_stats_on(heap, &stats, stream), WH_OK);
    assert_ptr_equal(own.take_stream, stream);
    assert_int_equal(wh_heap_walk(heap, count, &visited), WH_OK);
    assert_null(own.take_stream);
    assert_null(own.give_stream);
    assert_int_equal(wh_heap_walk_on(heap, count, &visited, stream), WH_OK);
    assert_ptr_equal(own.take_stream, stream);
    assert_ptr_equal(own.give_stream, stream);
    own.give_stream = NULL;
    assert_int_equal(wh_heap_destroy_on(heap, stream), WH_OK);
    assert_ptr_equal(own.give_stream, stream);
    assert_int_equal(own.n, 0);
    assert_int_equal(wh_stream_destroy(d, stream), WH_OK);
    wh_device_close(d);
}

/* All calls that take memory, up to the first that fails. */
static wh_status all_calls(wh_heap **heap, const wh_heap_options *o) {
    wh_stats stats;
    uint32_t visited = 0;
    int64_t moved = 0;
    wh_status s = wh_heap_create(heap, o);
    s = s == WH_OK ? wh_heap_get_stats(*heap, &stats) : s;
    s = s == WH_OK ? wh_heap_walk(*heap, count, &visited) : s;
    const int grows = s == WH_OK && (wh_heap_allocator(*heap)->caps & WH_CAP_GROW) != 0;
    return grows ? wh_heap_grow(*heap, 2 * o->bytes, NULL, &moved) : s;
}

/* Whichever request is refused, the call says so and the heap is as it was. */
static void test_refused(void **state) {
    (void)state;
    const char *names[] = {"tessera", "bump", "ouro-s-p"};
    for (uint32_t i = 0; i < 3; i++) {
        const wh_allocator_info *info = wh_allocator_find(names[i]);
        if (info == NULL || (info->caps & WH_CAP_WALK) == 0) {
            continue;
        }
        wh_status s = WH_OUT_OF_MEMORY;
        uint32_t refused = 0;
        for (uint32_t k = 1; s != WH_OK; k++) {
            source own = {.fail = k};
            wh_device *d = open_empty();
            const wh_heap_options o = options(d, &own, names[i]);
            wh_heap *heap = NULL;
            wh_stats stats;
            s = all_calls(&heap, &o);
            if (s != WH_OK) {
                refused++;
                assert_int_equal(s, WH_OUT_OF_MEMORY);
                assert_non_null(strstr(wh_last_error_text(), "memory source"));
                assert_int_equal(heap != NULL, k > 1);
            }
            if (heap != NULL) { /* the next request is granted */
                assert_int_equal(wh_heap_get_stats(heap, &stats), WH_OK);
                assert_int_equal(stats.heap_bytes, s == WH_OK && (info->caps & WH_CAP_GROW) != 0
                                                       ? 2 * HEAP_BYTES
                                                       : HEAP_BYTES);
                assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
                assert_int_equal(own.n, 2);
            }
            assert_int_equal(wh_heap_destroy(heap), WH_OK);
            assert_int_equal(own.n, 0);
            wh_device_close(d);
        }
        assert_int_equal(refused, (info->caps & WH_CAP_GROW) != 0 ? 4 : 3);
    }
}

/* Memory between multiples of 256 goes back at once. */
static void test_misaligned(void **state) {
    (void)state;
    for (uint64_t off = 16; off < 256; off *= 2) {
        source own = {.off = off};
        wh_device *d = open_empty();
        wh_heap_options o = options(d, &own, NULL);
        wh_heap *heap = (wh_heap *)(uintptr_t)1;
        assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), "multiple of 256"));
        assert_null(heap);
        assert_int_equal(own.takes, 1);
        assert_int_equal(own.n, 0);
        wh_device_close(d);
    }
}

/* A heap that cannot be made asks for nothing. */
static void test_contradictions(void **state) {
    (void)state;
    static WH_ALIGNAS(256) unsigned char memory[4096];
    source own = {.n = 0};
    wh_device *d = open_empty();
    wh_heap *heap = NULL;
    const wh_heap_options good = options(d, &own, NULL);
    for (uint32_t k = 0; k < 8; k++) {
        wh_heap_options o = good;
        o.memory = k == 0 || k == 1 ? memory : NULL;
        o.cuda_pool = k == 1 || k == 2 || k == 3 ? memory : NULL;
        o.source.alloc = k == 1 || k == 3 || k == 4 ? NULL : o.source.alloc;
        o.source.free = k == 1 || k == 3 || k == 5 ? NULL : o.source.free;
        o.reserve_bytes = k == 6 ? 64 * HEAP_BYTES : 0;
        o.bytes = k == 7 ? 1024 : o.bytes;
        const wh_status s = wh_heap_create(&heap, &o);
        const wh_status expected = k == 3 ? WH_UNSUPPORTED : WH_BAD_ARGUMENT;
        assert_int_equal(s, k == 7 ? WH_HEAP_TOO_SMALL : expected);
        assert_null(heap);
        assert_true(wh_last_error_text()[0] != '\0');
    }
    wh_tessera_options reserves = WH_TESSERA_OPTIONS;
    wh_heap_options o = good;
    reserves.reserve_bytes = 64 * HEAP_BYTES;
    o.options = &reserves.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_BAD_ARGUMENT);
    assert_int_equal(own.takes, 0);
    /* Code of older headers has no such fields. */
    o = good;
    o.struct_bytes = offsetof(wh_heap_options, source);
    assert_int_equal(wh_heap_create(&heap, &o), WH_OUT_OF_MEMORY); /* of the device */
    assert_int_equal(own.takes, 0);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_memory),     cmocka_unit_test(test_stream),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
