/* gauge.c: gauges of heaps. On a quiet heap a sample is what wh_heap_get_stats says, for heaps of
 * every chunk size, plain and reserved with holes. While lanes run it is about right: read by a
 * lane in their midst, under every policy, and by another thread of the host, also while the heap
 * is extended and trimmed. Files: what a reader sees of a program that publishes, has ended or is
 * gone; files that are cut short, damaged, of another version or no gauge's. */
#define WH_ALLOCATOR tessera

#include "sim/sim_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpheap/gauge.h"
#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)
#define N_BLOCKS 900u
#define N_LANES 128u

static char folder[] = "/tmp/warpheap_gauge_XXXXXX";
static char path[80];

typedef struct churn_args {
    wh_heap_ref heap;
    void **blocks;
    wh_gauge *gauge; /* NULL: no lane reads */
    wh_gauge_sample *low, *high;
    uint32_t rounds, seed, drops, most; /* drops: nothing comes for what is freed */
} churn_args;

static uint32_t size_of(uint32_t i, uint32_t seed, uint32_t most) {
    const uint32_t mix = (i * 977 + seed * 131) % 1009;
    return mix % 7 == 0 ? mix * 53 % most + 1 : mix % 300 + 1;
}

/* By a lane, in the midst of the others. */
static void sample_into(const churn_args *a) {
    wh_gauge_sample s;
    assert_int_equal(wh_gauge_read(a->gauge, WH_GAUGE_BLOCKS, &s), WH_OK);
    (void)wh_fetch_min_u64_relaxed(&a->low->live_blocks, s.live_blocks);
    (void)wh_fetch_max_u64_relaxed(&a->high->live_blocks, s.live_blocks);
    (void)wh_fetch_max_u64_relaxed(&a->high->used_bytes, s.used_bytes);
    assert_true(s.claimed_bytes <= s.heap_bytes);
}

/* Each block is freed, and another one comes for it. */
WH_KERNEL(churn, churn_args, a) {
    for (uint32_t r = 0; r < a.rounds; r++) {
        for (uint32_t i = (uint32_t)wh_thread_id(); i < N_BLOCKS; i += N_LANES) {
            wh_free(a.heap, a.blocks[i]);
            a.blocks[i] = a.drops && (i + r) % 3 != 0
                              ? NULL
                              : wh_malloc(a.heap, size_of(i + r, a.seed, a.most));
            if (a.gauge != NULL && i == r * 7 % N_LANES) {
                sample_into(&a);
            }
        }
    }
}

WH_KERNEL(ask_too_much, churn_args, a) {
    wh_free(a.heap, wh_malloc(a.heap, 1000 * MIB));
    wh_free(a.heap, (unsigned char *)a.blocks + 8); /* no block of the heap */
}

typedef struct context {
    wh_device *device;
    wh_heap *heap;
    wh_gauge *gauge;
    churn_args a;
} context;

static wh_heap *make_heap(wh_device *d, uint64_t chunk, uint64_t reserved) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    wh_heap *heap = NULL;
    memset(&o, 0, sizeof o);
    own.chunk_bytes = chunk;
    own.granule_bytes = reserved != 0 ? 16 << 10 : 0;
    own.shards = 3;
    own.track_peak = own.track_totals = chunk == 2048;
    o.device = d;
    o.bytes = reserved != 0 ? 2 * MIB : 6 * MIB;
    o.reserve_bytes = reserved;
    o.options = &own.head;
    assert_int_equal(wh_heap_create(&heap, &o), WH_OK);
    return heap;
}

static void begin(context *x, const wh_sim_options *o, uint64_t chunk, uint64_t reserved) {
    memset(x, 0, sizeof *x);
    x->device = open_with(o);
    x->heap = make_heap(x->device, chunk, reserved);
    assert_int_equal(wh_gauge_open(&x->gauge, x->heap), WH_OK);
    assert_int_equal(wh_heap_handle(x->heap, &x->a.heap), WH_OK);
    x->a.blocks = take(x->device, N_BLOCKS * sizeof(void *));
    x->a.rounds = 3;
    x->a.seed = (uint32_t)o->seed;
    x->a.most = (uint32_t)chunk * 5;
}

static void run(context *x, wh_status (*kernel)(const wh_launch *, const churn_args *)) {
    const wh_launch l = grid(x->device, N_LANES / 64, 64);
    assert_int_equal(kernel(&l, &x->a), WH_OK);
    assert_int_equal(wh_device_sync(x->device), WH_OK);
}

static void end(context *x) {
    assert_int_equal(wh_gauge_close(x->gauge), WH_OK);
    assert_int_equal(wh_heap_destroy(x->heap), WH_OK);
    wh_device_close(x->device);
}

/* The sample of a quiet heap is what the statistics are. */
static void compare(context *x) {
    wh_stats stats;
    wh_gauge_sample s, chunks;
    assert_int_equal(wh_gauge_read(x->gauge, WH_GAUGE_BLOCKS, &s), WH_OK);
    assert_int_equal(wh_gauge_read(x->gauge, WH_GAUGE_CHUNKS, &chunks), WH_OK);
    assert_int_equal(wh_heap_get_stats(x->heap, &stats), WH_OK);
    assert_int_equal(s.struct_bytes, sizeof s);
    assert_int_equal(s.heap_bytes, stats.heap_bytes);
    assert_int_equal(s.metadata_bytes, stats.metadata_bytes);
    assert_int_equal(s.live_blocks, stats.live_blocks);
    assert_int_equal(s.used_bytes, stats.used_bytes);
    assert_int_equal(s.failed, stats.failed);
    assert_int_equal(s.bad_frees, stats.bad_frees);
    assert_int_equal(s.peak_bytes, stats.peak_bytes);
    assert_int_equal(s.mallocs, stats.mallocs);
    assert_true(s.claimed_bytes >= s.used_bytes);
    assert_true(s.claimed_bytes <= s.heap_bytes - s.metadata_bytes);
    assert_true(s.time_ns != 0 && s.read_bytes >= chunks.read_bytes && chunks.read_bytes > 0);
    assert_int_equal(chunks.claimed_bytes, s.claimed_bytes);
    assert_int_equal(chunks.failed, stats.failed);
    assert_int_equal(chunks.live_blocks, WH_UNKNOWN);
    assert_int_equal(chunks.used_bytes,
                     stats.peak_bytes != WH_UNKNOWN ? stats.used_bytes : WH_UNKNOWN);
}

/* Each takes a second in checked builds. */
static uint64_t half_of_seeds(void) {
    return (n_seeds() + 1) / 2;
}

static void test_quiet(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < half_of_seeds(); seed++) {
        for (uint32_t k = 0; k < 10; k++) {
            const uint64_t chunk = (uint64_t)1024 << k % 5;
            wh_sim_options o = {.seed = seed, .policy = (wh_sim_policy)((seed + k) % N_POLICIES)};
            context x;
            begin(&x, &o, chunk, k < 5 ? 0 : 64 * MIB);
            compare(&x);
            run(&x, churn);
            compare(&x);
            if (k >= 5) {
                assert_int_equal(wh_heap_extend(x.heap, 4 * MIB), WH_OK);
                compare(&x);
            }
            run(&x, ask_too_much);
            compare(&x);
            x.a.drops = 1;
            run(&x, churn);
            compare(&x);
            if (k >= 5) { /* with holes */
                assert_int_equal(wh_heap_trim(x.heap, 0, NULL), WH_OK);
                compare(&x);
            }
            assert_int_equal(wh_heap_reset(x.heap), WH_OK);
            compare(&x);
            end(&x);
        }
    }
}

/* Read by a lane while others are anywhere in malloc and free. What a lane has in its hands may be
 * a word of 56 slots. */
static void test_among_lanes(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < half_of_seeds(); seed++) {
        for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
            wh_sim_options o = {.seed = seed, .policy = (wh_sim_policy)policy};
            wh_gauge_sample low = {.live_blocks = UINT64_MAX}, high = {.live_blocks = 0}, last;
            context x;
            begin(&x, &o, (uint64_t)1024 << seed % 5, seed % 2 != 0 ? 64 * MIB : 0);
            if (seed % 2 != 0) {
                assert_int_equal(wh_heap_extend(x.heap, 6 * MIB), WH_OK);
            }
            run(&x, churn);
            x.a.gauge = x.gauge;
            x.a.low = &low, x.a.high = &high;
            run(&x, churn);
            compare(&x);
            assert_true(high.live_blocks <= N_BLOCKS + N_LANES * 56);
            assert_int_equal(wh_gauge_read(x.gauge, WH_GAUGE_CHUNKS, &last), WH_OK);
            assert_true(low.live_blocks + N_LANES + last.failed >= N_BLOCKS);
            assert_true(high.used_bytes <= 64 * MIB);
            end(&x);
        }
    }
}

/* --- another thread ------------------------------------------------------------------------- */

typedef struct reader {
    wh_gauge *gauge;
    uint32_t stop, n;
    wh_status status;
    uint64_t most_live, most_used, failed;
} reader;

static void *read_on(void *arg) {
    reader *r = arg;
    while (__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE) == 0 && r->status == WH_OK) {
        wh_gauge_sample s;
        r->status = wh_gauge_read(r->gauge, r->n % 4 == 0 ? WH_GAUGE_CHUNKS : WH_GAUGE_BLOCKS, &s);
        if (r->n % 4 != 0) {
            r->most_live = s.live_blocks > r->most_live ? s.live_blocks : r->most_live;
            r->most_used = s.used_bytes > r->most_used ? s.used_bytes : r->most_used;
        }
        r->failed = s.failed;
        __atomic_store_n(&r->n, r->n + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void test_thread(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 6; k++) {
        const uint32_t workers = k % 3 == 0 ? 1 : 4;
        const int reserved = k >= 3;
        wh_sim_options o = {.seed = k, .policy = WH_SIM_RANDOM, .workers = workers};
        context x;
        reader r;
        pthread_t thread;
        begin(&x, &o, 4096, reserved ? 64 * MIB : 0);
        memset(&r, 0, sizeof r);
        r.gauge = x.gauge;
        assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
        for (uint32_t i = 0; i < 6 || __atomic_load_n(&r.n, __ATOMIC_ACQUIRE) < 20; i++) {
            x.a.seed = i;
            run(&x, churn);
            if (reserved) {
                assert_int_equal(wh_heap_extend(x.heap, MIB), WH_OK);
                assert_int_equal(wh_heap_trim(x.heap, 3 * MIB, NULL), WH_OK);
            }
        }
        __atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(r.status, WH_OK);
        assert_true(r.most_live >= N_BLOCKS / 3 && r.most_live <= N_BLOCKS + N_LANES * 56);
        assert_true(r.most_used <= 64 * MIB);
        compare(&x);
        end(&x);
    }
}

/* --- files ---------------------------------------------------------------------------------- */

static wh_status file_says(wh_gauge_view *view) {
    memset(view, 0x55, sizeof *view);
    return wh_gauge_read_file(path, view);
}

static void test_publish(void **state) {
    (void)state;
    wh_sim_options o = {.seed = 1};
    wh_gauge_view view;
    wh_gauge_sample s;
    wh_gauge *second = NULL;
    context x;
    begin(&x, &o, 4096, 0);
    assert_int_equal(file_says(&view), WH_IO_ERROR);
    assert_non_null(strstr(wh_last_error_text(), path));
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_OK);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_LIVE);
    assert_int_equal(view.sample.live_blocks, 0);
    run(&x, churn);
    assert_int_equal(file_says(&view), WH_OK); /* nobody has read since */
    assert_int_equal(view.sample.live_blocks, 0);
    assert_int_equal(wh_gauge_read(x.gauge, WH_GAUGE_BLOCKS, &s), WH_OK);
    assert_int_equal(file_says(&view), WH_OK);
    assert_memory_equal(&view.sample, &s, sizeof s);
    assert_int_equal(s.live_blocks, N_BLOCKS);
    assert_int_equal(view.struct_bytes, sizeof view);
    assert_int_equal(view.pid, getpid());
    assert_int_equal(view.interval_ms, 0);
    assert_string_equal(view.program, "unit_gauge");
    assert_string_equal(view.allocator, "tessera");
    assert_string_equal(view.device, "simulated device");
    /* One file is one gauge's, and one gauge has one file. */
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_open(&second, x.heap), WH_OK);
    assert_int_equal(wh_gauge_publish(second, path, WH_GAUGE_BLOCKS, 0), WH_IO_ERROR);
    assert_non_null(strstr(wh_last_error_text(), "another gauge"));
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_LIVE);
    assert_int_equal(wh_gauge_close(x.gauge), WH_OK);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_ENDED);
    assert_memory_equal(&view.sample, &s, sizeof s);
    /* Now it is free, for a thread of the library's. */
    assert_int_equal(wh_gauge_publish(second, path, WH_GAUGE_CHUNKS, 1), WH_OK);
    const uint64_t first = (assert_int_equal(file_says(&view), WH_OK), view.sample.time_ns);
    do {
        run(&x, churn);
        assert_int_equal(file_says(&view), WH_OK);
        assert_int_equal(view.state, WH_GAUGE_LIVE);
        assert_int_equal(view.interval_ms, 1);
        assert_int_equal(view.sample.live_blocks, WH_UNKNOWN);
    } while (view.sample.time_ns == first);
    x.gauge = second;
    end(&x);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_ENDED);
    assert_int_equal(unlink(path), 0);
}

/* A heap that ends before its gauges: they say so, publish no more, and close as ever. */
static void test_heap_goes_first(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 40; k++) {
        wh_sim_options o = {.seed = k};
        wh_gauge_view view;
        wh_gauge_sample s;
        wh_gauge *quiet = NULL;
        context x;
        reader r;
        pthread_t thread;
        begin(&x, &o, 4096, k % 2 != 0 ? 64 * MIB : 0);
        assert_int_equal(wh_gauge_open(&quiet, x.heap), WH_OK);
        assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 1), WH_OK);
        memset(&r, 0, sizeof r);
        r.gauge = quiet;
        assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
        while (__atomic_load_n(&r.n, __ATOMIC_ACQUIRE) < k % 8) {
        }
        assert_int_equal(wh_heap_destroy(x.heap), WH_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(r.status, WH_BAD_ARGUMENT);
        assert_int_equal(wh_gauge_read(quiet, WH_GAUGE_CHUNKS, &s), WH_BAD_ARGUMENT);
        assert_non_null(strstr(wh_last_error_text(), "destroyed"));
        assert_int_equal(wh_gauge_publish(quiet, path, WH_GAUGE_BLOCKS, 1), WH_BAD_ARGUMENT);
        do { /* it is the last sample that stays */
            assert_int_equal(file_says(&view), WH_OK);
        } while (view.state == WH_GAUGE_LIVE);
        assert_int_equal(view.state, WH_GAUGE_ENDED);
        assert_int_equal(wh_gauge_close(x.gauge), WH_OK);
        assert_int_equal(wh_gauge_close(quiet), WH_OK);
        wh_device_close(x.device);
        assert_int_equal(unlink(path), 0);
    }
}

/* A reader that comes between two halves of a record reads again. */
static void test_torn(void **state) {
    (void)state;
    wh_sim_options o = {.seed = 2};
    wh_gauge_view view;
    context x;
    reader r;
    pthread_t thread;
    begin(&x, &o, 1024, 0);
    memset(&r, 0, sizeof r);
    r.gauge = x.gauge;
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_OK);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    for (uint32_t i = 0; i < 2000; i++) {
        assert_int_equal(file_says(&view), WH_OK);
        assert_int_equal(view.state, WH_GAUGE_LIVE);
    }
    __atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.status, WH_OK);
    end(&x);
    assert_int_equal(unlink(path), 0);
}

/* A program that ends without a word. Before anything of this one has threads. */
static void test_gone(void **state) {
    (void)state;
    wh_gauge_view view;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        wh_device *d = NULL;
        wh_heap *heap = NULL;
        wh_gauge *gauge = NULL;
        wh_heap_options o;
        memset(&o, 0, sizeof o);
        o.bytes = MIB;
        const int bad = wh_device_open(&d, "sim", NULL) != WH_OK ||
                        (o.device = d, wh_heap_create(&heap, &o)) != WH_OK ||
                        wh_gauge_open(&gauge, heap) != WH_OK ||
                        wh_gauge_publish(gauge, path, WH_GAUGE_BLOCKS, 50) != WH_OK;
        _exit(bad);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_GONE);
    assert_int_equal(view.pid, child);
    assert_int_equal(view.sample.live_blocks, 0);
    assert_int_equal(unlink(path), 0);
}

/* It leaves a child, which has the lock on the file, too. Before anything of this one has threads.
 */
static void test_gone_but_for_a_child(void **state) {
    (void)state;
    int alive[2], done[2];
    assert_int_equal(pipe(alive) | pipe(done), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        wh_heap *heap = NULL;
        wh_gauge *gauge = NULL;
        wh_heap_options o;
        char c = 0;
        memset(&o, 0, sizeof o);
        o.bytes = MIB;
        const int bad = wh_device_open(&o.device, "sim", NULL) != WH_OK ||
                        wh_heap_create(&heap, &o) != WH_OK ||
                        wh_gauge_open(&gauge, heap) != WH_OK ||
                        wh_gauge_publish(gauge, path, WH_GAUGE_BLOCKS, 0) != WH_OK;
        const pid_t second = fork();
        (void)close(done[1]);
        if (second != 0 && !bad) {
            (void)!write(alive[1], &c, 1);
        }
        (void)!read(done[0], &c, 1); /* until the test ends */
        _exit(0);
    }
    char c = 0;
    wh_gauge_view view;
    (void)close(alive[1]);
    (void)close(done[0]);
    assert_int_equal(read(alive[0], &c, 1), 1);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_LIVE);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(file_says(&view),
                     WH_OK); /* nobody has waited for it: its number is not free */
    assert_int_equal(view.state, WH_GAUGE_GONE);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_GONE);
    assert_int_equal(view.pid, child);
    wh_sim_options o = {.seed = 7}; /* the file is not free for another one */
    context x;
    begin(&x, &o, 4096, 0);
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_IO_ERROR);
    assert_non_null(strstr(wh_last_error_text(), "a child of a program that has ended"));
    end(&x);
    (void)close(done[1]);
    (void)close(alive[0]);
    assert_int_equal(unlink(path), 0);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A disk that is full: each call says so, and a file that was begun goes. */
static void test_cannot_write(void **state) {
    (void)state;
    wh_sim_options so = {.seed = 5};
    wh_gauge_sample s;
    wh_status status;
    char text[400];
    context x;
    begin(&x, &so, 4096, 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (uint32_t interval = 0; interval < 2; interval++) {
        limit_files(100);
        status = wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, interval);
        limit_files(RLIM_INFINITY);
        assert_int_equal(status, WH_IO_ERROR);
        assert_non_null(strstr(wh_last_error_text(), path));
        assert_non_null(strstr(wh_last_error_text(), "too large"));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    for (uint32_t interval = 0; interval < 2; interval++) {
        assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, interval), WH_OK);
        limit_files(100);
        status = wh_gauge_read(x.gauge, WH_GAUGE_BLOCKS, &s);
        (void)snprintf(text, sizeof text, "%s", wh_last_error_text());
        (void)usleep(interval * 50000); /* the thread finds it, too */
        const wh_status last = wh_gauge_close(x.gauge);
        limit_files(RLIM_INFINITY);
        assert_int_equal(status, WH_IO_ERROR);
        assert_non_null(strstr(text, path));
        assert_int_equal(s.live_blocks, 0); /* it is right */
        assert_int_equal(last, WH_IO_ERROR);
        assert_non_null(strstr(wh_last_error_text(), path));
        assert_int_equal(wh_gauge_open(&x.gauge, x.heap), WH_OK);
        assert_int_equal(wh_gauge_read(x.gauge, WH_GAUGE_BLOCKS, &s), WH_OK);
        assert_string_equal(wh_last_error_text(), "");
        assert_int_equal(unlink(path), 0);
    }
    (void)signal(SIGXFSZ, SIG_DFL);
    end(&x);
}

static void write_file(const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_damage(void **state) {
    (void)state;
    unsigned char bytes[1024];
    wh_sim_options o = {.seed = 3};
    wh_gauge_view view;
    context x;
    begin(&x, &o, 4096, 0);
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_OK);
    assert_int_equal(wh_gauge_close(x.gauge), WH_OK);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fclose(f), 0);
    assert_true(n > 300 && n < sizeof bytes);
    for (size_t k = 0; k < n; k++) {
        bytes[k] ^= 1;
        write_file(bytes, n);
        bytes[k] ^= 1;
        const wh_status s = file_says(&view);
        assert_int_equal(s, k >= 8 && k < 16 ? WH_WRONG_BUILD : WH_BAD_FORMAT);
        assert_non_null(strstr(wh_last_error_text(), path));
    }
    for (size_t k = 0; k < n; k += k < 32 ? 1 : 37) {
        write_file(bytes, k);
        assert_int_equal(file_says(&view), WH_BAD_FORMAT);
    }
    write_file(bytes, n);
    assert_int_equal(file_says(&view), WH_OK);
    assert_int_equal(view.state, WH_GAUGE_ENDED);
    /* A file of another kind is left alone. */
    static const char text[] = "notes of mine";
    write_file(text, sizeof text);
    assert_int_equal(wh_gauge_open(&x.gauge, x.heap), WH_OK);
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_BAD_FORMAT);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof text);
    assert_int_equal(fclose(f), 0);
    assert_string_equal((char *)bytes, text);
    assert_int_equal(wh_gauge_publish(x.gauge, folder, WH_GAUGE_BLOCKS, 0), WH_IO_ERROR);
    assert_int_equal(wh_gauge_publish(x.gauge, "/nowhere/at/all", WH_GAUGE_BLOCKS, 0), WH_IO_ERROR);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(wh_gauge_publish(x.gauge, path, WH_GAUGE_BLOCKS, 0), WH_OK);
    end(&x);
    assert_int_equal(unlink(path), 0);
}

static void test_arguments(void **state) {
    (void)state;
    wh_sim_options so = {.seed = 3};
    wh_gauge_sample s;
    wh_gauge_view view;
    wh_gauge *gauge = NULL;
    context x;
    begin(&x, &so, 4096, 0);
    assert_int_equal(wh_gauge_open(NULL, x.heap), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_open(&gauge, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read(NULL, 0, &s), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read(x.gauge, 0, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read(x.gauge, 2, &s), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read_sized(x.gauge, 0, &s, sizeof s + 8), WH_WRONG_BUILD);
    assert_int_equal(wh_gauge_read_sized(x.gauge, 0, &s, 8), WH_WRONG_BUILD);
    s.bad_frees = 77; /* a smaller struct, of older headers */
    assert_int_equal(wh_gauge_read_sized(x.gauge, 0, &s, offsetof(wh_gauge_sample, bad_frees)),
                     WH_OK);
    assert_int_equal(s.struct_bytes, offsetof(wh_gauge_sample, bad_frees));
    assert_int_equal(s.bad_frees, 77);
    assert_int_equal(wh_gauge_publish(NULL, path, 0, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_publish(x.gauge, NULL, 0, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_publish(x.gauge, path, 2, 0), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read_file(NULL, &view), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read_file(path, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_gauge_read_file_sized(path, &view, 8), WH_WRONG_BUILD);
    assert_int_equal(wh_gauge_close(NULL), WH_OK);
    if (wh_allocator_find("bump") != NULL) {
        wh_heap *bump = NULL;
        wh_heap_options o;
        memset(&o, 0, sizeof o);
        o.device = x.device, o.bytes = MIB, o.allocator = "bump";
        assert_int_equal(wh_heap_create(&bump, &o), WH_OK);
        assert_int_equal(wh_gauge_open(&gauge, bump), WH_UNSUPPORTED);
        assert_non_null(strstr(wh_last_error_text(), "bump"));
        assert_null(gauge);
        assert_int_equal(wh_heap_destroy(bump), WH_OK);
    }
    end(&x);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone),         cmocka_unit_test(test_gone_but_for_a_child),
        cmocka_unit_test(test_quiet),        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_among_lanes),  cmocka_unit_test(test_publish),
        cmocka_unit_test(test_torn),         cmocka_unit_test(test_damage),
        cmocka_unit_test(test_arguments),    cmocka_unit_test(test_heap_goes_first),
        cmocka_unit_test(test_cannot_write),
    };
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/gauge", folder);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return rmdir(folder) == 0 ? failed : 1;
}
