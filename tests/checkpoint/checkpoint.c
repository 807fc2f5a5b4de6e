/* checkpoint.c: heaps in files. Random heaps, plain and reserved with holes, are saved and loaded
 * beside the first one, after its end, into the same memory and into other memory, on devices of
 * other SMs: every block has its contents and its usable size, statistics agree, and malloc and
 * free go on. Files that are cut short, flipped or of another kind are refused, and leave nothing;
 * a save that fails leaves the old file. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "checkpoint/file.h"
#include "warpheap/checkpoint.h"
#include "warpheap/options.h"
#include "warpheap/records.h"
#include "warpheap/warpheap.h"

#define MOST_BLOCKS 600u
#define MIB ((uint64_t)1 << 20)

static char folder[] = "/tmp/warpheap_checkpoint_XXXXXX";
static char path[80], other[80];

typedef struct block {
    uint64_t *p;
    uint64_t bytes, usable, stamp;
} block;

typedef struct act_args {
    wh_heap_ref heap;
    block *blocks;
    uint32_t *wrong;
    uint32_t first, n, frees, align;
} act_args;

WH_FN uint32_t is_damaged(const block *b) {
    uint32_t wrong = 0;
    for (uint64_t k = 0; b->p != NULL && k < b->bytes / 8; k++) {
        wrong |= b->p[k] != b->stamp + k;
    }
    return wrong;
}

/* Blocks [first, first + n): new ones, filled; or verified, and freed. */
WH_KERNEL(act, act_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        block *b = &a.blocks[a.first + i];
        if (a.frees) {
            wh_add_u32_relaxed(a.wrong, is_damaged(b));
            wh_free(a.heap, b->p);
            b->p = NULL;
        } else {
            b->p = (uint64_t *)(i % 16 == 0 && a.align != 0
                                    ? wh_aligned_alloc(a.heap, a.align, b->bytes)
                                    : wh_malloc(a.heap, b->bytes));
            b->usable = wh_usable_size(a.heap, b->p);
            for (uint64_t k = 0; b->p != NULL && k < b->bytes / 8; k++) {
                b->p[k] = b->stamp + k;
            }
        }
    }
}

WH_KERNEL(verify, act_args, a) {
    for (uint64_t i = wh_thread_id(); i < a.n; i += wh_grid_threads()) {
        const block *b = &a.blocks[i];
        wh_add_u32_relaxed(a.wrong, b->p != NULL && (is_damaged(b) || !wh_owns(a.heap, b->p) ||
                                                     wh_usable_size(a.heap, b->p) != b->usable));
    }
}

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    act_args act;
    uint64_t random, stamp;
} context;

static void launch(context *x, wh_status (*kernel)(const wh_launch *, const act_args *)) {
    const wh_launch l = grid(x->device, 2, 64);
    assert_int_equal(kernel(&l, &x->act), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
    assert_int_equal(*x->act.wrong, 0);
}

static void fill(context *x, uint32_t first, uint32_t n, uint64_t most) {
    for (uint32_t i = first; i < first + n; i++) {
        block *b = &x->act.blocks[i];
        const uint64_t r = next_random(&x->random);
        b->bytes = ((r >> 8) % (r % 7 == 0 ? most : 512) + 8) / 8 * 8;
        b->stamp = x->stamp += 1 << 20;
    }
    x->act.first = first, x->act.n = n, x->act.frees = 0;
    x->act.align = 1u << (5 + next_random(&x->random) % 8);
    launch(x, act);
}

/* Every block of [first, first + n), or about one of `some`. */
static void empty(context *x, uint32_t first, uint32_t n, uint32_t some) {
    x->act.frees = 1, x->act.n = 1;
    for (uint32_t i = first; i < first + n; i++) {
        x->act.first = i;
        if (next_random(&x->random) % some == 0) {
            launch(x, act);
        }
    }
}

static void check(context *x) {
    wh_report report;
    const wh_status s = wh_heap_check(x->heap, &report);
    if (s != WH_OK) {
        print_error("I%u at %u\n", (unsigned)report.first_tag, (unsigned)report.first_where);
    }
    assert_int_equal(s, WH_OK);
    x->act.n = MOST_BLOCKS;
    launch(x, verify);
}

static wh_device *device_of(uint64_t seed, uint32_t n_sms, uint64_t memory) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.seed = seed;
    o.n_sms = n_sms;
    o.memory_bytes = memory;
    return open_with(&o);
}

/* memory: the caller's, or NULL. */
static wh_heap *create(wh_device *d, uint64_t bytes, uint64_t reserved, uint64_t chunk,
                       void *memory) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    own.chunk_bytes = chunk;
    own.granule_bytes = reserved != 0 ? 16 << 10 : 0;
    own.shards = 3;
    own.track_peak = own.track_totals = 1;
    o.device = d;
    o.bytes = bytes;
    o.reserve_bytes = reserved;
    o.options = &own.head;
    o.memory = memory;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void begin(context *x, uint64_t seed, uint64_t reserved, void *memory, uint64_t bytes) {
    memset(x, 0, sizeof *x);
    x->device = device_of(seed, 4, 0);
    x->random = seed;
    x->heap = create(x->device, bytes, reserved, (uint64_t)1024 << seed % 5, memory);
    assert_int_equal(wh_heap_handle(x->heap, &x->act.heap), WH_OK);
    x->act.blocks = take(x->device, MOST_BLOCKS * sizeof(block));
    x->act.wrong = take(x->device, sizeof(uint32_t));
}

/* Another heap for the same blocks, which have moved. */
static void follow(context *x, wh_device *d, wh_heap *heap, int64_t moved) {
    x->device = d;
    x->heap = heap;
    assert_int_equal(wh_heap_handle(heap, &x->act.heap), WH_OK);
    for (uint32_t i = 0; i < MOST_BLOCKS; i++) {
        x->act.blocks[i].p = wh_heap_rebase(x->act.blocks[i].p, moved);
    }
}

static void end(wh_heap *heap, wh_device *d) {
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(d);
}

static void assert_same_stats(const wh_stats *a, wh_heap *heap) {
    wh_stats b;
    assert_int_equal(wh_heap_get_stats(heap, &b), WH_OK);
    assert_int_equal(a->live_blocks, b.live_blocks);
    assert_int_equal(a->used_bytes, b.used_bytes);
    assert_int_equal(a->largest_free, b.largest_free);
    assert_int_equal(a->peak_bytes, b.peak_bytes);
    assert_int_equal(a->mallocs, b.mallocs);
    assert_int_equal(a->frees, b.frees);
    assert_int_equal(a->failed, b.failed);
    assert_int_equal(a->bad_frees, b.bad_frees);
    assert_memory_equal(a->classes, b.classes, sizeof a->classes);
}

/* Heaps as they get in use: freed here and there; a reserved one also with holes and more memory.
 */
static void use(context *x, uint64_t most, int is_reserved) {
    fill(x, 0, MOST_BLOCKS, most);
    empty(x, 0, MOST_BLOCKS, 2);
    if (is_reserved) {
        empty(x, 0, MOST_BLOCKS / 2, 1);
        assert_int_equal(wh_heap_trim(x->heap, 0, NULL), WH_OK);
        assert_int_equal(wh_heap_extend(x->heap, 64 << 10), WH_OK);
        fill(x, 0, MOST_BLOCKS / 4, most / 4);
    }
}

/* malloc and free go on, up to the last block. */
static void go_on(context *x, uint64_t most) {
    check(x);
    for (uint32_t turn = 0; turn < 3; turn++) {
        empty(x, 0, MOST_BLOCKS / 4, 1);
        fill(x, 0, MOST_BLOCKS / 4, most);
        check(x);
    }
    empty(x, 0, MOST_BLOCKS, 1);
    wh_stats stats;
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.bad_frees, 0);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
    assert_int_equal(wh_heap_reset(x->heap), WH_OK);
    assert_int_equal(wh_heap_check(x->heap, NULL), WH_OK);
}

static void load_again(context *x, uint64_t seed, int beside, int is_reserved) {
    wh_device *first = x->device, *d = device_of(seed + 1, 1 + (uint32_t)(seed % 9), 0);
    wh_heap *old = x->heap, *heap = NULL;
    wh_stats stats;
    int64_t moved = 1;
    uint64_t left[2], left_now, mapped[2];
    wh_heap_options o = {0};
    o.device = d;
    assert_int_equal(wh_heap_get_stats(old, &stats), WH_OK);
    assert_int_equal(wh_heap_blocks_left(old, 64, &left[0]), WH_OK);
    assert_int_equal(wh_heap_blocks_left(old, 20000, &left[1]), WH_OK);
    assert_int_equal(wh_heap_extent(old, &mapped[0], NULL, NULL), WH_OK);
    assert_int_equal(wh_heap_save(old, path), WH_OK);
    assert_same_stats(&stats, old);
    if (!beside) {
        assert_int_equal(wh_heap_destroy(old), WH_OK);
        old = NULL;
    }
    const wh_status s = wh_heap_load(&heap, path, &o, &moved);
    if (s != WH_OK) {
        print_error("%s\n", wh_last_error_text());
    }
    assert_int_equal(s, WH_OK);
    assert_int_equal(moved % (2 * (int64_t)MIB), 0);
    assert_true(!is_reserved || beside == (moved != 0));
    assert_same_stats(&stats, heap);
    assert_int_equal(wh_heap_extent(heap, &mapped[1], NULL, NULL), WH_OK);
    assert_true(mapped[0] >= mapped[1] || !is_reserved); /* no more than was in use */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(wh_heap_blocks_left(heap, i == 0 ? 64 : 20000, &left_now), WH_OK);
        assert_int_equal(left_now, left[i]);
    }
    follow(x, d, heap, moved);
    if (old != NULL) { /* it is not needed, and not touched */
        assert_int_equal(wh_heap_check(old, NULL), WH_OK);
        assert_int_equal(wh_heap_destroy(old), WH_OK);
    }
    check(x);
    /* Of what was loaded, once more. */
    assert_int_equal(wh_heap_save(heap, path), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_OK);
    follow(x, d, heap, moved);
    assert_same_stats(&stats, heap);
    if (is_reserved) {
        assert_int_equal(wh_heap_extend(heap, 256 << 10), WH_OK);
        check(x);
        assert_int_equal(wh_heap_trim(heap, 0, NULL), WH_OK);
    }
    go_on(x, 20000);
    end(heap, d);
    wh_device_close(first);
}

static void test_plain(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        begin(&x, seed, 0, NULL, (uint64_t)(1 + seed % 3) * MIB + seed * 4096);
        use(&x, 40000, 0);
        load_again(&x, seed, seed % 2 == 0, 0);
    }
}

static void test_reserved(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds(); seed++) {
        context x;
        begin(&x, seed, 64 * MIB, NULL, 4 * MIB);
        use(&x, 40000, 1);
        load_again(&x, seed, seed % 2 == 0, 1);
    }
}

/* The caller's own memory: the same, other memory, and too little. */
static void test_memory(void **state) {
    (void)state;
    const uint64_t bytes = 3 * MIB, aside = MIB / 4 + 256;
    context x;
    wh_device *d = device_of(7, 4, 0);
    unsigned char *memory = take(d, bytes), *more = take(d, bytes + 4 * MIB);
    begin(&x, 3, 0, memory, bytes);
    wh_device *first = x.device;
    use(&x, 40000, 0);
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    memset(memory, 0xa5, bytes);
    wh_heap_options o = {0};
    int64_t moved = 1;
    wh_heap *heap = NULL;
    o.device = d, o.memory = memory, o.bytes = bytes;
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_OK);
    assert_int_equal(moved, 0);
    follow(&x, d, heap, moved);
    check(&x);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    memset(memory, 0xa5, bytes);
    /* At another place: too little, and enough. */
    heap = x.heap;
    o.memory = more + aside, o.bytes = bytes;
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_HEAP_TOO_SMALL);
    assert_null(heap);
    assert_non_null(strstr(wh_last_error_text(), path));
    o.bytes = bytes + 4 * MIB - aside;
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_OK);
    assert_int_equal(moved % (2 * (int64_t)MIB), 0);
    assert_int_not_equal(moved, 0);
    follow(&x, d, heap, moved);
    go_on(&x, 40000);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    o.memory = more + 8;
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_BAD_ARGUMENT);
    wh_device_close(d);
    wh_device_close(first);
}

/* A heap whose memory two functions of the caller's give: bytes that are out. */
static void *source_take(uint64_t bytes, uint64_t align, void *stream, void *user) {
    void *p = NULL;
    (void)stream;
    if (posix_memalign(&p, align, bytes) == 0) {
        *(uint64_t *)user += bytes;
    }
    return p;
}

static void source_give(void *p, uint64_t bytes, void *stream, void *user) {
    (void)stream;
    *(uint64_t *)user -= bytes;
    free(p);
}

static void test_source(void **state) {
    (void)state;
    uint64_t out = 0;
    context x;
    wh_heap_options o = {0};
    wh_heap *heap = NULL;
    int64_t moved = 0;
    begin(&x, 3, 0, NULL, 3 * MIB);
    o.device = x.device, o.bytes = 3 * MIB;
    o.source.alloc = source_take, o.source.free = source_give, o.source.user = &out;
    use(&x, 40000, 0);
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_OK);
    assert_true(out >= 3 * MIB);
    wh_heap *const old = x.heap;
    follow(&x, x.device, heap, moved);
    go_on(&x, 40000);
    const uint64_t before = out;
    assert_int_equal(wh_heap_save(heap, path), WH_OK); /* what that takes has come back */
    assert_int_equal(out, before);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    assert_int_equal(out, 0);
    o.memory = source_take; /* at a multiple of 256 or not: it is one too many */
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_BAD_ARGUMENT);
    assert_null(heap);
    end(old, x.device);
    assert_int_equal(out, 0);
}

/* Memory of the caller's that is aligned otherwise than what the device gives: more is needed. */
static void test_aside(void **state) {
    (void)state;
    const uint64_t bytes = 2 * MIB, aside = 2 * MIB - 64 * 1024 - 256;
    context x;
    wh_device *d = device_of(7, 4, 0);
    unsigned char *memory = take(d, bytes + aside);
    begin(&x, 2, 0, memory + aside, bytes);
    wh_device *first = x.device;
    use(&x, 40000, 0);
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
    wh_heap_options o = {0};
    int64_t moved = 0;
    wh_heap *heap = NULL;
    void *at = NULL;
    uint64_t now = 0;
    o.device = d;
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_OK);
    assert_int_equal(moved % (2 * (int64_t)MIB), 0);
    assert_int_equal(wh_heap_memory(heap, &at, &now), WH_OK);
    assert_true(now >= bytes && now <= bytes + 3 * MIB);
    follow(&x, d, heap, moved);
    go_on(&x, 40000);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    wh_device_close(d);
    wh_device_close(first);
}

/* --- files ------------------------------------------------------------------------------------ */

static unsigned char *read_all(const char *name, size_t *bytes) {
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(f);
    unsigned char *all = malloc(*bytes);
    rewind(f);
    assert_int_equal(fread(all, 1, *bytes, f), *bytes);
    (void)fclose(f);
    return all;
}

static void write_all(const char *name, const void *from, size_t bytes) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(from, 1, bytes, f), bytes);
    (void)fclose(f);
}

static uint32_t files_in_folder(void) {
    DIR *d = opendir(folder);
    uint32_t n = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return n;
}

static wh_device *device; /* with room for one heap of those below */

/* The text names the file; nothing is there. */
static void assert_refused(const char *name, wh_status status, const char *allocator) {
    wh_heap *heap = (wh_heap *)(void *)&device;
    int64_t moved = 1;
    wh_heap_options o = {0};
    o.device = device;
    o.allocator = allocator;
    const wh_status s = wh_heap_load(&heap, name, &o, &moved);
    assert_int_not_equal(s, WH_OK);
    if (status != WH_OK && s != status) {
        print_error("%s: %s\n", wh_status_name(s), wh_last_error_text());
        assert_int_equal(s, status);
    }
    assert_null(heap);
    assert_int_equal(moved, 0);
    assert_true(strncmp(wh_last_error_text(), name, strlen(name)) == 0);
}

static void assert_loads(const char *name) {
    wh_heap *heap = NULL;
    int64_t moved;
    wh_heap_options o = {0};
    o.device = device;
    assert_int_equal(wh_heap_load(&heap, name, &o, &moved), WH_OK);
    assert_int_equal(wh_heap_check(heap, NULL), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
}

/* A file of a small heap, in memory: of 512 KiB, or with addresses reserved. */
static unsigned char *small_file(uint64_t reserved, size_t *bytes) {
    context x;
    begin(&x, 11, reserved, NULL, reserved != 0 ? MIB : MIB / 2);
    fill(&x, 0, 100, 2000);
    empty(&x, 0, 100, 2);
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    end(x.heap, x.device);
    return read_all(path, bytes);
}

static void test_damage(void **state) {
    (void)state;
    device = device_of(1, 4, MIB);
    for (uint64_t reserved = 0; reserved <= 8 * MIB; reserved += 8 * MIB) {
        size_t bytes;
        unsigned char *file = small_file(reserved, &bytes);
        uint64_t random = 5;
        assert_true(bytes < 64 << 10);
        assert_loads(path);
        for (size_t n = 0; n < bytes; n += n < 600 || n + 40 > bytes ? 1 : 97) {
            write_all(other, file, n);
            assert_refused(other, n < 8 || n >= 16 ? WH_BAD_FORMAT : WH_OK, NULL);
        }
        for (uint32_t k = 0; k < 2000; k++) {
            const size_t at = k < 64 * 8 ? k / 8 : (size_t)(next_random(&random) % bytes);
            const uint32_t bit = (uint32_t)(k < 64 * 8 ? k : next_random(&random)) % 8;
            file[at] ^= (unsigned char)(1u << bit);
            write_all(other, file, bytes);
            assert_refused(other, WH_OK, NULL);
            file[at] ^= (unsigned char)(1u << bit);
        }
        unsigned char *longer = calloc(1, bytes + 7);
        memcpy(longer, file, bytes);
        write_all(other, longer, bytes + 7);
        assert_refused(other, WH_BAD_FORMAT, NULL);
        free(longer);
        free(file);
        assert_loads(path);
    }
    assert_refused("/nowhere/at/all", WH_IO_ERROR, NULL);
    assert_refused(folder, WH_IO_ERROR, NULL);
    wh_device_close(device);
}

/* Of a stream that was changed: another one may stand for the same bytes. */
static uint32_t is_refused(const char *name) {
    wh_heap *heap = NULL;
    int64_t moved;
    wh_heap_options o = {0};
    o.device = device;
    const wh_status s = wh_heap_load(&heap, name, &o, &moved);
    assert_true(s == WH_BAD_FORMAT || s == WH_OK);
    assert_int_equal(s == WH_OK ? wh_heap_check(heap, NULL) : WH_OK, WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    return s != WH_OK;
}

/* Checksums that are right again: what is refused for what it says. */
static void seal(unsigned char *file, size_t bytes) {
    whi_file_head *head = (whi_file_head *)(void *)file;
    whi_file_tail tail;
    head->crc = crc32(0, file, offsetof(whi_file_head, crc));
    tail.file_bytes = bytes;
    memcpy(file + bytes - sizeof tail, &tail.file_bytes, 8);
    tail.crc = crc32(0, file, (uInt)bytes - 8);
    memcpy(file + bytes - 8, &tail.crc, 8);
    write_all(other, file, bytes);
}

static void assert_change(uint64_t *field, uint64_t value, unsigned char *file, size_t bytes,
                          wh_status status) {
    const uint64_t was = *field;
    *field = value;
    seal(file, bytes);
    assert_refused(other, status, NULL);
    *field = was;
}

static void test_kind(void **state) {
    (void)state;
    device = device_of(1, 4, MIB);
    for (uint64_t reserved = 0; reserved <= 8 * MIB; reserved += 8 * MIB) {
        size_t n;
        unsigned char *file = small_file(reserved, &n);
        whi_file_head *head = (whi_file_head *)(void *)file;
        whi_image_facts *f = &head->facts;
        char *name = head->allocator;
        seal(file, n);
        assert_loads(other);
        assert_refused(path, WH_WRONG_ALLOCATOR, "bump");
        assert_change(&head->version, 2, file, n, WH_WRONG_BUILD);
        assert_change(&head->head_bytes, sizeof *head + 8, file, n, WH_BAD_FORMAT);
        assert_change(&f->layout, ~f->layout, file, n, WH_WRONG_BUILD); /* hostile, release */
        assert_change(&f->layout, f->layout ^ 4096, file, n, WH_WRONG_BUILD);
        assert_change(&f->target, WH_TARGET_CUDA, file, n, WH_WRONG_TARGET);
        assert_change(&f->shape.n_chunks, f->shape.n_chunks + 1, file, n, WH_BAD_FORMAT);
        assert_change(&f->shape.n_chunks, 0, file, n, WH_BAD_FORMAT);
        assert_change(&f->shape.n_chunks, UINT64_MAX, file, n, WH_BAD_FORMAT);
        assert_change(&f->shape.n_shards, 0, file, n, WH_BAD_FORMAT);
        assert_change(&f->shape.metadata_bytes, 64, file, n, WH_BAD_FORMAT);
        assert_change(&f->n_sms, 0, file, n, WH_BAD_FORMAT);
        if (reserved != 0) {
            assert_change(&f->plan.granule, f->plan.granule * 2, file, n, WH_WRONG_TARGET);
            assert_change(&f->plan.units_at, f->plan.units_at + 4096, file, n, WH_WRONG_BUILD);
            assert_change(&f->bytes, 4 * MIB, file, n, WH_WRONG_BUILD);
        }
        strcpy(name, "bump");
        seal(file, n);
        const int has_bump = wh_allocator_find("bump") != NULL;
        assert_refused(other, has_bump ? WH_UNSUPPORTED : WH_UNKNOWN_ALLOCATOR, NULL);
        strcpy(name, "nobody");
        seal(file, n);
        assert_refused(other, WH_UNKNOWN_ALLOCATOR, NULL);
        strcpy(name, "tessera");
        /* The stream breaks off when some of the heap is there, or its own checksum is wrong. */
        uint32_t refused = 0, tries = 0;
        for (size_t at = sizeof *head; at + sizeof(whi_file_tail) < n; at += 61) {
            file[at] ^= 0x55;
            seal(file, n);
            refused += is_refused(other);
            tries++;
            file[at] ^= 0x55;
        }
        assert_true(refused + refused / 8 >= tries);
        seal(file, n - 40);
        assert_refused(other, WH_BAD_FORMAT, NULL);
        free(file);
        assert_loads(path); /* all memory of the device is there again */
    }
    wh_device_close(device);
}

/* A device that is too small, and one that is too small for the reserve's units. */
static void test_no_memory(void **state) {
    (void)state;
    size_t n;
    device = device_of(1, 4, 300 << 10);
    for (uint64_t reserved = 0; reserved <= 8 * MIB; reserved += 8 * MIB) {
        free(small_file(reserved, &n));
        for (uint32_t k = 0; k < 4; k++) {
            assert_refused(path, WH_OUT_OF_MEMORY, NULL);
        }
        void *p = NULL;
        assert_int_equal(wh_device_alloc(device, &p, 290 << 10), WH_OK);
        assert_int_equal(wh_device_free(device, p), WH_OK);
    }
    wh_device_close(device);
}

static void assert_save_fails(wh_heap *heap, const char *name) {
    const uint32_t files = files_in_folder();
    assert_int_equal(wh_heap_save(heap, name), WH_IO_ERROR);
    assert_true(strncmp(wh_last_error_text(), name, strlen(name)) == 0);
    assert_int_equal(files_in_folder(), files);
}

/* The old file stays, and no new one; then the save that succeeds has the old one's rights. */
static void test_save_fails(void **state) {
    (void)state;
    context x;
    size_t before, after;
    unsigned char *old = small_file(0, &before);
    begin(&x, 5, 0, NULL, 3 * MIB);
    fill(&x, 0, MOST_BLOCKS, 20000);
    const struct rlimit little = {16 << 10, RLIM_INFINITY};
    struct rlimit was;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0); /* a disk that is full */
    assert_save_fails(x.heap, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    unsigned char *now = read_all(path, &after);
    assert_int_equal(before, after);
    assert_memory_equal(old, now, before);
    assert_save_fails(x.heap, "/nowhere/at/all");
    assert_save_fails(x.heap, folder);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    struct stat it;
    assert_int_equal(stat(path, &it), 0);
    assert_int_equal(it.st_mode & 0777, 0640);
    free(old);
    free(now);
    end(x.heap, x.device);
}

/* GiBs of addresses, or much memory, with little in them; and a heap with nothing. */
static void test_little(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 3; k++) {
        context x;
        struct stat it;
        begin(&x, 4, k == 1 ? 4096 * MIB : 0, NULL, 64 * MIB);
        if (k != 2) {
            fill(&x, 0, 20, 300000);
        }
        assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
        assert_int_equal(stat(path, &it), 0);
        assert_true(it.st_size < (int64_t)MIB);
        end(x.heap, x.device);
        device = device_of(1, 4, 0);
        assert_loads(path);
        wh_device_close(device);
    }
}

static void test_arguments(void **state) {
    (void)state;
    context x;
    wh_heap *heap = NULL;
    int64_t moved = 1;
    begin(&x, 4, 0, NULL, MIB);
    assert_int_equal(wh_heap_save(NULL, path), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_save(x.heap, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_save(x.heap, ""), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_load(NULL, path, NULL, &moved), WH_BAD_ARGUMENT);
    heap = x.heap;
    assert_int_equal(wh_heap_load(&heap, path, NULL, NULL), WH_BAD_ARGUMENT);
    assert_null(heap);
    assert_int_equal(wh_heap_load(&heap, NULL, NULL, &moved), WH_BAD_ARGUMENT);
    assert_int_equal(moved, 0);
    /* Without options: any device. */
    assert_int_equal(wh_heap_save(x.heap, path), WH_OK);
    assert_int_equal(wh_heap_load(&heap, path, NULL, &moved), WH_OK);
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    /* Memory for a heap that reserves its own. */
    void *memory = take(x.device, MIB);
    wh_heap *reserved = create(x.device, MIB, 8 * MIB, 1024, NULL);
    wh_heap_options o = {0};
    o.device = x.device, o.memory = memory, o.bytes = MIB;
    assert_int_equal(wh_heap_save(reserved, path), WH_OK);
    assert_int_equal(wh_heap_load(&heap, path, &o, &moved), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_destroy(reserved), WH_OK);
    if (wh_allocator_find("bump") != NULL) {
        wh_heap *bump = NULL;
        o.memory = NULL, o.allocator = "bump";
        assert_int_equal(wh_heap_create(&bump, &o), WH_OK);
        assert_int_equal(wh_heap_save(bump, path), WH_UNSUPPORTED);
        assert_int_equal(wh_heap_destroy(bump), WH_OK);
    }
    end(x.heap, x.device);
}

typedef struct fail_args {
    wh_heap_ref heap;
} fail_args;

WH_KERNEL(fail_once, fail_args, a) {
    if (wh_malloc_at(a.heap, 64 * MIB, WH_TAG(9)) != NULL) {
        wh_trap("there is no memory for it");
    }
}

/* A checked heap is not saved. One that keeps records of failures is, and keeps them. */
static void test_records(void **state) {
    (void)state;
    context x;
    begin(&x, 4, 0, NULL, MIB);
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_record r;
    int64_t moved = 0;
    o.device = x.device, o.bytes = MIB, o.options = &own.head;
    own.checked = 1;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    assert_int_equal(wh_heap_save(heap, path), WH_UNSUPPORTED);
    assert_non_null(strstr(wh_last_error_text(), "checked"));
    assert_int_equal(wh_heap_destroy(heap), WH_OK);
    own.checked = 0, own.failure_records = 2;
    for (uint64_t reserved = 0; reserved < 2; reserved++) {
        uint32_t n = 0;
        fail_args a;
        const wh_launch l = wh_grid(x.device, 1, 1);
        o.reserve_bytes = reserved * 8 * MIB;
        assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
        assert_int_equal(wh_heap_save(heap, path), WH_OK);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
        wh_heap_options of_file = {0};
        of_file.device = x.device;
        assert_int_equal(wh_heap_load(&heap, path, &of_file, &moved), WH_OK);
        assert_int_equal(wh_heap_handle(heap, &a.heap), WH_OK);
        assert_int_equal(fail_once(&l, &a), WH_OK);
        assert_int_equal(wh_heap_failures(heap, &r, sizeof r, 1, &n), WH_OK);
        assert_int_equal(n, 1);
        assert_int_equal(r.site.line, 9);
        assert_int_equal(wh_heap_destroy(heap), WH_OK);
    }
    end(x.heap, x.device);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),     cmocka_unit_test(test_reserved),
        cmocka_unit_test(test_aside),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_damage),    cmocka_unit_test(test_kind),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_save_fails),
        cmocka_unit_test(test_little),    cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_source),    cmocka_unit_test(test_records),
    };
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/heap", folder);
    (void)snprintf(other, sizeof other, "%s/other", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)unlink(other);
    return rmdir(folder) == 0 ? failed : 1;
}
