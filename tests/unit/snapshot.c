/* snapshot.c: snapshots and reports of leaks against what the test itself has allocated: plain and
 * checked heaps, slots, large slabs, runs, aligned blocks, heaps in reserved addresses; marks and
 * blocks that come to the places of older ones; paths that cannot be written. What the file says is
 * read back line by line: tests/cli/view reads it as JSON. */
#define WH_ALLOCATOR tessera

#include <inttypes.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/sim_test.h"

#include "warpheap/options.h"
#include "warpheap/snapshot.h"
#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)
#define THREADS 64u
#define BLOCKS 3u
#define KINDS 9u
static const uint64_t sizes[KINDS] = {1, 16, 40, 300, 5000, 16384, 20000, 100000, 48};
static const uint64_t aligns[KINDS] = {1, 1, 1, 1, 1, 1, 1, 1, 512};

typedef struct call_args {
    wh_heap_ref h;
    void **p; /* of each thread and kind */
    uint64_t sizes[KINDS], aligns[KINDS];
    uint32_t first_tag;
    uint32_t frees; /* of which kinds, a bit each */
} call_args;

/* A block of each kind by each thread; a tag for each kind. */
WH_KERNEL(allocate, call_args, a) {
    const uint64_t t = wh_thread_id();
    for (uint32_t k = 0; k < KINDS; k++) {
        a.p[t * KINDS + k] = a.aligns[k] > 1
                                 ? wh_aligned_alloc(a.h, a.aligns[k], a.sizes[k])
                                 : wh_malloc_at(a.h, a.sizes[k], WH_TAG(a.first_tag + k));
    }
}
WH_KERNEL(give_back, call_args, a) {
    const uint64_t t = wh_thread_id();
    for (uint32_t k = 0; k < KINDS; k++) {
        if ((a.frees >> k & 1) != 0) {
            wh_free(a.h, a.p[t * KINDS + k]);
        }
    }
}

typedef struct setup {
    wh_device *device;
    wh_heap *heap;
    call_args a;
    char path[64];
} setup;

/* quarantine: bytes; 0: the heap is not checked. */
static setup make_of(uint64_t bytes, uint64_t reserve, uint64_t quarantine, uint64_t seed) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    setup x;
    memset(&x, 0, sizeof x);
    memset(&o, 0, sizeof o);
    x.device = open_policy((wh_sim_policy)(seed % N_POLICIES), seed);
    own.checked = quarantine != 0;
    own.quarantine_bytes = quarantine;
    o.device = x.device;
    o.bytes = bytes;
    o.reserve_bytes = reserve;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&x.heap, &o), WH_OK);
    assert_int_equal(wh_heap_handle(x.heap, &x.a.h), WH_OK);
    x.a.p = take(x.device, BLOCKS * THREADS * KINDS * sizeof *x.a.p);
    x.a.first_tag = 1;
    memcpy(x.a.sizes, sizes, sizeof sizes);
    memcpy(x.a.aligns, aligns, sizeof aligns);
    (void)snprintf(x.path, sizeof x.path, "snapshot_%ld.json", (long)getpid());
    return x;
}
static void drop(setup *x) {
    (void)unlink(x->path);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}
static void run_allocate(setup *x) {
    const wh_launch l = grid(x->device, BLOCKS, THREADS);
    assert_int_equal(allocate(&l, &x->a), WH_OK);
    for (uint32_t i = 0; i < BLOCKS * THREADS * KINDS; i++) {
        assert_non_null(x->a.p[i]);
    }
}
static void run_free(setup *x, uint32_t kinds) {
    const wh_launch l = grid(x->device, BLOCKS, THREADS);
    x->a.frees = kinds;
    assert_int_equal(give_back(&l, &x->a), WH_OK);
}

/* --- the file --------------------------------------------------------------------------------- */

typedef struct row {
    uint64_t offset, taken, bytes, site, block, thread, mark;
} row;
#define MOST_ROWS 4096u
typedef struct contents {
    uint64_t base, chunk_bytes, chunks, mark, used, live; /* of the head */
    uint64_t next_chunk, piece_live, piece_kept, n_pieces;
    row rows[MOST_ROWS];
    uint32_t n_rows;
    uint32_t tags[64], n_tags;
    int ended;
} contents;

static uint64_t number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : WH_UNKNOWN;
}

static void read_piece(contents *c, const char *line) {
    uint64_t chunk = 0, chunks = 0, v[5] = {0};
    char kind[16] = "";
    const int n = sscanf(line,
                         "[%" SCNu64 ",%" SCNu64 ",\"%15[a-z]\",%" SCNu64 ",%" SCNu64 ",%" SCNu64
                         ",%" SCNu64 ",%" SCNu64,
                         &chunk, &chunks, kind, &v[0], &v[1], &v[2], &v[3], &v[4]);
    assert_true(n >= 3);
    assert_int_equal(chunk, c->next_chunk); /* each chunk once */
    assert_true(chunks > 0);
    c->next_chunk += chunks;
    c->n_pieces++;
    assert_string_not_equal(kind, "other");
    if (strcmp(kind, "slab") == 0) {
        assert_int_equal(n, 8);
        assert_true(v[0] * v[1] <= chunks * c->chunk_bytes);
        assert_true(v[2] + v[3] + v[4] <= v[1]);
        c->piece_live += v[2];
        c->piece_kept += v[3];
    } else if (strcmp(kind, "large") == 0) {
        assert_int_equal(n, 5);
        assert_int_equal(v[0] + v[1], 1);
        c->piece_live += v[0];
        c->piece_kept += v[1];
    }
}

static void read_row(contents *c, const char *line, int checked) {
    row *r = &c->rows[c->n_rows++];
    assert_true(c->n_rows < MOST_ROWS);
    memset(r, 0, sizeof *r);
    const int n = sscanf(
        line, "[%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64,
        &r->offset, &r->taken, &r->bytes, &r->site, &r->block, &r->thread, &r->mark);
    assert_int_equal(n, checked ? 7 : 2);
    assert_true(c->n_rows < 2 || r[-1].offset < r->offset);
}

static contents *read_file(const char *path, int checked) {
    contents *c = calloc(1, sizeof *c);
    char line[1024];
    int part = 0; /* of the file: head, pieces, blocks, sites */
    FILE *f = fopen(path, "r");
    assert_non_null(c);
    assert_non_null(f);
    c->base = c->chunk_bytes = c->chunks = c->mark = c->used = c->live = WH_UNKNOWN;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strstr(line, ":[\n") != NULL) {
            part++;
        } else if (strstr(line, "\"end\"") != NULL) {
            assert_int_equal(number_after(line, "\"pieces\":"), c->n_pieces);
            assert_int_equal(number_after(line, "\"blocks\":"), c->n_rows);
            assert_int_equal(number_after(line, "\"sites\":"), c->n_tags);
            c->ended = 1;
        } else if (part == 0) {
            uint64_t *const to[] = {&c->base, &c->chunk_bytes, &c->chunks,
                                    &c->mark, &c->used,        &c->live};
            static const char *const names[] = {
                "\"base\":", "\"chunk_bytes\":", "\"chunks\":",
                "\"mark\":", "\"used_bytes\":",  "\"live_blocks\":"};
            for (uint32_t k = 0; k < 6; k++) {
                const uint64_t v = number_after(line, names[k]);
                *to[k] = v != WH_UNKNOWN ? v : *to[k];
            }
        } else if (line[0] == '[' && part == 1) {
            read_piece(c, line);
        } else if (line[0] == '[' && part == 2) {
            read_row(c, line, checked);
        } else if (line[0] == '[' && part == 3) {
            assert_int_equal(sscanf(line, "[\"\",%" SCNu32, &c->tags[c->n_tags++]), 1);
        }
    }
    (void)fclose(f);
    assert_true(c->ended);
    assert_int_equal(c->next_chunk, c->chunks);
    assert_int_equal(c->piece_live, c->n_rows);
    assert_int_equal(c->live, c->n_rows);
    return c;
}

static const row *find(const contents *c, const void *p) {
    for (uint32_t i = 0; i < c->n_rows; i++) {
        if (c->base + c->rows[i].offset == (uint64_t)(uintptr_t)p) {
            return &c->rows[i];
        }
    }
    return NULL;
}

/* The snapshot has the live blocks, as they were allocated, and no others. */
static contents *compare(setup *x, uint32_t freed, int checked) {
    uint32_t n = 0;
    uint64_t used = 0;
    assert_int_equal(wh_heap_snapshot_save(x->heap, x->path), WH_OK);
    contents *c = read_file(x->path, checked);
    for (uint32_t i = 0; i < BLOCKS * THREADS * KINDS; i++) {
        const uint32_t thread = i / KINDS, k = i % KINDS;
        const row *r = find(c, x->a.p[i]);
        if ((freed >> k & 1) != 0) {
            assert_true(r == NULL);
            continue;
        }
        assert_non_null(r);
        n++;
        used += checked ? r->bytes : r->taken;
        assert_true(r->taken >= sizes[k]);
        if (checked) {
            assert_int_equal(r->bytes, sizes[k]);
            assert_int_equal(r->thread, thread);
            assert_int_equal(r->block, thread / THREADS);
            assert_true(r->site < c->n_tags);
            assert_int_equal(c->tags[r->site], aligns[k] > 1 ? 0 : x->a.first_tag + k);
        }
    }
    assert_int_equal(n, c->n_rows);
    assert_int_equal(used, c->used);
    return c;
}

static void test_file(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < n_seeds() && seed < 4; seed++) {
        for (uint64_t checked = 0; checked < 2; checked++) {
            for (uint64_t reserve = 0; reserve < 2; reserve++) {
                setup x = make_of(64 * MIB, reserve * 256 * MIB, checked * MIB, seed);
                contents *c = NULL;
                run_allocate(&x);
                free(compare(&x, 0, (int)checked));
                run_free(&x, 0x55);
                c = compare(&x, 0x55, (int)checked);
                assert_true(checked != 0 || c->piece_kept == 0);
                assert_true(checked == 0 || c->piece_kept != 0); /* in quarantine */
                free(c);
                assert_int_equal(wh_heap_check(x.heap, NULL), WH_OK);
                drop(&x);
            }
        }
    }
}

static void test_empty(void **state) {
    (void)state;
    for (uint64_t checked = 0; checked < 2; checked++) {
        setup x = make_of(MIB, 0, checked * MIB, 0);
        uint32_t n = 7;
        assert_int_equal(wh_heap_snapshot_save(x.heap, x.path), WH_OK);
        contents *c = read_file(x.path, (int)checked);
        assert_int_equal(c->n_rows, 0);
        assert_int_equal(c->used, 0);
        free(c);
        assert_int_equal(wh_heap_leaks(x.heap, 0, NULL, sizeof(wh_leak), 0, &n), WH_OK);
        assert_int_equal(n, 0);
        drop(&x);
    }
}

/* Names that JSON has to escape, and bytes that are no letters of UTF-8. */
static const char odd_name[] = "\"a\\\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\xff\xc3.cu";
WH_KERNEL(allocate_oddly, call_args, a) {
    a.p[0] = wh_malloc_at(a.h, 40, wh_site_of(odd_name, 7));
    a.p[1] = wh_malloc_at(a.h, 41, 77); /* a mistake: no WH_TAG */
}
static void test_names(void **state) {
    (void)state;
    setup x = make_of(MIB, 0, 1, 0);
    const wh_launch l = grid(x.device, 1, 1);
    char line[200];
    int found = 0, found_number = 0;
    assert_int_equal(allocate_oddly(&l, &x.a), WH_OK);
    assert_int_equal(wh_heap_snapshot_save(x.heap, x.path), WH_OK);
    FILE *f = fopen(x.path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        found |= strcmp(line, "[\"\\\"a\\\\\\u0009\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"
                              "\\ufffd\\ufffd.cu\",7],\n") == 0;
        found_number |= strcmp(line, "[\"\",77]],\n") == 0;
    }
    (void)fclose(f);
    assert_true(found && found_number);
    drop(&x);
}

/* --- leaks ------------------------------------------------------------------------------------ */

static const wh_leak *leak_of(const wh_leak *leaks, uint32_t n, uint32_t tag, uint64_t bytes) {
    for (uint32_t i = 0; i < n; i++) {
        if (leaks[i].site.line == tag && leaks[i].bytes == bytes) {
            return &leaks[i];
        }
    }
    return NULL;
}

static void test_leaks(void **state) {
    (void)state;
    setup x = make_of(64 * MIB, 0, MIB, 1);
    wh_leak leaks[2 * KINDS];
    uint64_t mark = 0, next = 0;
    uint32_t n = 0;
    run_allocate(&x);
    assert_int_equal(wh_heap_leaks(x.heap, 0, leaks, sizeof *leaks, 2 * KINDS, &n), WH_OK);
    assert_int_equal(n, KINDS);
    for (uint32_t k = 0; k < KINDS; k++) {
        const wh_leak *l = leak_of(leaks, n, aligns[k] > 1 ? 0 : 1 + k, sizes[k]);
        assert_non_null(l);
        assert_int_equal(l->blocks, BLOCKS * THREADS);
        assert_int_equal(l->total, BLOCKS * THREADS * sizes[k]);
        const uint64_t lowest = l->thread;
        assert_true(lowest < BLOCKS * THREADS);
        assert_int_equal(l->block, lowest / THREADS);
        assert_ptr_equal(x.a.p[lowest * KINDS + k], (void *)(uintptr_t)l->address);
        for (uint32_t t = 0; t < BLOCKS * THREADS; t++) {
            assert_true((uint64_t)(uintptr_t)x.a.p[t * KINDS + k] >= l->address);
        }
    }
    for (uint32_t i = 1; i < n; i++) {
        assert_true(leaks[i - 1].total >= leaks[i].total);
    }
    /* Nothing has come since. */
    assert_int_equal(wh_heap_mark(x.heap, &mark), WH_OK);
    assert_int_equal(wh_heap_leaks(x.heap, mark, leaks, sizeof *leaks, 2 * KINDS, &n), WH_OK);
    assert_int_equal(n, 0);
    /* All kinds go and come again, half of them with other tags; without quarantine they would
     * come to the same places. */
    run_free(&x, (1u << KINDS) - 1);
    x.a.first_tag = 100;
    run_allocate(&x);
    run_free(&x, (1u << KINDS) - 1 - 6);
    assert_int_equal(wh_heap_mark(x.heap, &next), WH_OK);
    assert_true(next > mark);
    assert_int_equal(wh_heap_leaks(x.heap, mark, leaks, sizeof *leaks, 2 * KINDS, &n), WH_OK);
    assert_int_equal(n, 2);
    assert_int_equal(leaks[0].site.line, 102);
    assert_int_equal(leaks[0].total, BLOCKS * THREADS * 40);
    assert_int_equal(leaks[1].site.line, 101);
    assert_int_equal(wh_heap_leaks(x.heap, mark, leaks, sizeof *leaks, 1, &n), WH_OK);
    assert_int_equal(n, 2); /* though there was room for one */
    assert_int_equal(wh_heap_leaks(x.heap, mark, NULL, sizeof *leaks, 0, &n), WH_OK);
    assert_int_equal(n, 2);
    assert_int_equal(wh_heap_leaks(x.heap, next, leaks, sizeof *leaks, 1, &n), WH_OK);
    assert_int_equal(n, 0);
    drop(&x);
}

/* A block at the place of an older one, allocated by the same call of the same thread, is new. */
static void test_same_place(void **state) {
    (void)state;
    setup x = make_of(MIB, 0, 1, 0); /* no quarantine */
    const wh_launch l = grid(x.device, BLOCKS, THREADS);
    void *before[BLOCKS * THREADS];
    wh_leak leak;
    uint32_t n = 0, same = 0;
    for (uint32_t k = 0; k < KINDS; k++) {
        x.a.sizes[k] = k == 2 ? sizes[k] : 0;
        x.a.aligns[k] = 1;
    }
    assert_int_equal(allocate(&l, &x.a), WH_OK);
    for (uint32_t t = 0; t < BLOCKS * THREADS; t++) {
        before[t] = x.a.p[t * KINDS + 2];
    }
    assert_int_equal(wh_heap_snapshot_save(x.heap, x.path), WH_OK);
    contents *c = read_file(x.path, 1); /* a snapshot is a mark, too */
    for (uint32_t round = 0; round < 200 && same == 0; round++) {
        run_free(&x, 4);
        assert_int_equal(allocate(&l, &x.a), WH_OK);
        for (uint32_t t = 0; t < BLOCKS * THREADS; t++) {
            same += x.a.p[t * KINDS + 2] == before[t];
        }
    }
    assert_true(same != 0);
    assert_int_equal(wh_heap_leaks(x.heap, c->mark, &leak, sizeof leak, 1, &n), WH_OK);
    assert_int_equal(n, 1);
    assert_int_equal(leak.blocks, BLOCKS * THREADS);
    free(c);
    drop(&x);
}

static void test_plain(void **state) {
    (void)state;
    setup x = make_of(64 * MIB, 0, 0, 0);
    wh_leak leaks[KINDS];
    uint64_t mark = 7;
    uint32_t n = 0;
    run_allocate(&x);
    assert_int_equal(wh_heap_mark(x.heap, &mark), WH_UNSUPPORTED);
    assert_int_equal(mark, 0);
    assert_non_null(strstr(wh_last_error_text(), "tessera.checked"));
    assert_int_equal(wh_heap_leaks(x.heap, 1, leaks, sizeof *leaks, KINDS, &n), WH_UNSUPPORTED);
    assert_int_equal(wh_heap_leaks(x.heap, 0, leaks, sizeof *leaks, KINDS, &n), WH_OK);
    uint64_t total = 0;
    for (uint32_t i = 0; i < n && i < KINDS; i++) { /* by size of the slot alone */
        assert_int_equal(leaks[i].site.line, 0);
        assert_int_equal(leaks[i].thread, WH_UNKNOWN);
        total += leaks[i].blocks;
    }
    assert_int_equal(total, BLOCKS * THREADS * KINDS);
    drop(&x);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void test_refused(void **state) {
    (void)state;
    setup x = make_of(MIB, 0, MIB, 0);
    wh_leak leak;
    uint64_t mark = 0;
    uint32_t n = 0;
    struct stat there;
    assert_int_equal(wh_heap_mark(NULL, &mark), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_mark(x.heap, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_leaks(NULL, 0, &leak, sizeof leak, 1, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_leaks(x.heap, 0, NULL, sizeof leak, 1, &n), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_leaks(x.heap, 0, &leak, sizeof leak, 1, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_leaks(x.heap, 0, &leak, 8, 1, &n), WH_WRONG_BUILD);
    assert_int_equal(wh_heap_leaks(x.heap, 1, &leak, sizeof leak, 1, &n), WH_BAD_ARGUMENT);
    assert_non_null(strstr(wh_last_error_text(), "mark 1 has not been made"));
    assert_int_equal(wh_heap_snapshot_save(NULL, x.path), WH_BAD_ARGUMENT);
    assert_string_equal(wh_last_error_text(), ""); /* none of the call before */
    assert_int_equal(wh_heap_snapshot_save(x.heap, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_snapshot_save(x.heap, ""), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_snapshot_save(x.heap, "no/such/folder.json"), WH_IO_ERROR);
    assert_non_null(strstr(wh_last_error_text(), "no/such/folder.json"));
    assert_int_equal(wh_heap_snapshot_save(x.heap, "."), WH_IO_ERROR); /* a folder */
    assert_int_not_equal(stat(x.path, &there), 0);
    /* What a rename would put an end to: a device, by a link as /dev/stdout is one; a pipe. */
    assert_int_equal(symlink("/dev/null", x.path), 0);
    assert_int_equal(wh_heap_snapshot_save(x.heap, x.path), WH_IO_ERROR);
    assert_non_null(strstr(wh_last_error_text(), "no plain file"));
    assert_true(lstat(x.path, &there) == 0 && S_ISLNK(there.st_mode));
    assert_int_equal(unlink(x.path), 0);
    assert_int_equal(mkfifo(x.path, 0600), 0);
    assert_int_equal(wh_heap_snapshot_save(x.heap, x.path), WH_IO_ERROR);
    assert_true(lstat(x.path, &there) == 0 && S_ISFIFO(there.st_mode));
    drop(&x);
}

/* Heaps of two devices, by two threads to one path: each save is whole, and the last one stays. */
typedef struct saver {
    wh_heap *heap;
    const char *path;
    uint32_t failed;
} saver;
static void *save_often(void *argument) {
    saver *s = argument;
    for (uint32_t k = 0; k < 20; k++) {
        s->failed += wh_heap_snapshot_save(s->heap, s->path) != WH_OK;
    }
    return NULL;
}
static void test_one_path(void **state) {
    (void)state;
    setup x = make_of(MIB, 0, MIB, 0), y = make_of(MIB, 0, 0, 0);
    saver savers[2] = {{x.heap, x.path, 0}, {y.heap, x.path, 0}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, save_often, &savers[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(savers[i].failed, 0);
    }
    drop(&y); /* removes the file */
    drop(&x);
}

static void test_text(void **state) {
    (void)state;
    wh_leak l;
    char text[300], cut[12];
    memset(&l, 0, sizeof l);
    l.bytes = 40;
    l.blocks = 3;
    l.total = 120;
    l.address = 0x1000;
    l.thread = 401;
    l.block = 3;
    (void)strcpy(l.site.file, "a/b.cu");
    l.site.line = 12;
    assert_string_equal(wh_leak_text(&l, text, sizeof text),
                        "a/b.cu:12: 120 bytes in 3 blocks of 40; one at 0x1000 by block 3, "
                        "thread 401");
    assert_string_equal(wh_leak_text(&l, cut, sizeof cut), "a/b.cu:12: ");
    l.site.file[0] = '\0';
    l.blocks = 1;
    l.thread = WH_UNKNOWN;
    assert_string_equal(wh_leak_text(&l, text, sizeof text),
                        "tag 12: 120 bytes in 1 block of 40; one at 0x1000");
    l.site.line = 0;
    assert_non_null(strstr(wh_leak_text(&l, text, sizeof text), "unknown place"));
    assert_string_equal(wh_leak_text(NULL, text, sizeof text), "");
    assert_string_equal(wh_leak_text(&l, NULL, 3), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),      cmocka_unit_test(test_file),
        cmocka_unit_test(test_empty),      cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_same_place), cmocka_unit_test(test_plain),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_text),
        cmocka_unit_test(test_one_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
