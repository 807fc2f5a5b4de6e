/* abi.c: the functions of warpheap_abi.h on the simulated device: each against what the heap's own
 * calls say, by many lanes under every policy; handles of no heap, of a heap that is gone, of
 * another version, of a GPU; the host's call and its errors. */
#include "sim/sim_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpheap/detail/abi.h"
#include "warpheap/warpheap.h"
#include "warpheap/warpheap_abi.h"

#define HEAP_BYTES ((uint64_t)4 << 20)
#define THREADS 96u

static wh_heap *create(wh_device *d) {
    wh_heap_options o;
    wh_heap *h = NULL;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = HEAP_BYTES;
    assert_int_equal(wh_heap_create(&h, &o), WH_OK);
    return h;
}

static wh_abi1_heap handle_of(wh_heap *h) {
    wh_abi1_heap handle = 0;
    assert_int_equal(wh_heap_abi1_handle(h, &handle), WH_OK);
    assert_true(handle != 0);
    return handle;
}

/* --- every call ------------------------------------------------------------------------- */

typedef struct call_args {
    wh_abi1_heap heap;
    wh_heap_ref own;
    uint32_t *wrong; /* how often something was not as it should be */
    void **keep;     /* a block of each thread, for the next kernel */
} call_args;

static void expect(call_args a, int right) {
    if (!right) {
        wh_add_u32_relaxed(a.wrong, 1);
    }
}

static void fill(void *p, uint64_t bytes, uint64_t seed) {
    for (uint64_t i = 0; i < bytes; i++) {
        ((unsigned char *)p)[i] = (unsigned char)(seed * 31 + i);
    }
}
static int holds(const void *p, uint64_t bytes, uint64_t seed) {
    for (uint64_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)p)[i] != (unsigned char)(seed * 31 + i)) {
            return 0;
        }
    }
    return 1;
}
static int is_zero(const void *p, uint64_t bytes) {
    const unsigned char *const c = p;
    uint64_t i = 0;
    while (i < bytes && c[i] == 0) {
        i++;
    }
    return i == bytes;
}

WH_KERNEL(every_call, call_args, a) {
    const uint64_t t = wh_thread_id(), n = 1 + t * 37 % 900;
    expect(a, wh_abi1_version() == WH_ABI1_VERSION && wh_abi1_fits(a.heap) == 1);
    void *p = wh_abi1_malloc(a.heap, n);
    expect(a, p != NULL && (uintptr_t)p % 16 == 0 && wh_abi1_owns(a.heap, p) == 1);
    expect(a, wh_abi1_usable_size(a.heap, p) >= n &&
                  wh_abi1_usable_size(a.heap, p) == wh_usable_size(a.own, p));
    fill(p, n, t);
    void *zeros = wh_abi1_calloc(a.heap, n, 3);
    expect(a, zeros != NULL && zeros != p && is_zero(zeros, 3 * n));
    p = wh_abi1_realloc(a.heap, p, 2 * n + 100);
    expect(a, p != NULL && holds(p, n, t));
    void *aligned = wh_abi1_aligned_alloc(a.heap, 512, n);
    expect(a, aligned != NULL && (uintptr_t)aligned % 512 == 0);
    expect(a, wh_abi1_free(a.heap, zeros) == 0 && wh_abi1_free(a.heap, aligned) == 0);
    expect(a, wh_abi1_free(a.heap, NULL) == 0 && wh_abi1_malloc(a.heap, 0) == NULL);
    expect(a, wh_abi1_calloc(a.heap, ~0ull, 3) == NULL);
    expect(a, wh_abi1_aligned_alloc(a.heap, 48, 16) == NULL && wh_abi1_owns(a.heap, &t) == 0);
    expect(a, wh_abi1_usable_size(a.heap, NULL) == 0);
    expect(a, wh_abi1_realloc(a.heap, wh_abi1_realloc(a.heap, NULL, n), 0) == NULL);
    /* Whole warps. */
    void *mine = wh_abi1_malloc_lanes(a.heap, WH_FULL_WARP, n);
    void *ours = wh_abi1_malloc_warp(a.heap, WH_FULL_WARP, 700);
    const uint64_t first = wh_shfl_u64(WH_FULL_WARP, (uint64_t)(uintptr_t)ours, 0);
    expect(a, mine != NULL && ours != NULL && first == (uint64_t)(uintptr_t)ours);
    expect(a, wh_abi1_free_lanes(a.heap, WH_FULL_WARP, mine) == 0);
    expect(a, wh_abi1_free_warp(a.heap, WH_FULL_WARP, ours) == 0);
    fill(p, n, t);
    a.keep[t] = p;
}

/* Blocks are blocks of the heap, whoever frees them. */
WH_KERNEL(free_all, call_args, a) {
    const uint64_t t = wh_thread_id(), from = (t + 41) % THREADS;
    expect(a, holds(a.keep[from], 1 + from * 37 % 900, from));
    if (t % 2 == 0) {
        wh_free(a.own, a.keep[from]);
    } else {
        expect(a, wh_abi1_free(a.heap, a.keep[from]) == 0);
    }
}

static void test_every_call(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < N_POLICIES; policy++) {
        for (uint64_t seed = 0; seed < n_seeds(); seed++) {
            wh_device *d = open_policy((wh_sim_policy)policy, seed);
            wh_heap *h = create(d);
            call_args a;
            memset(&a, 0, sizeof a);
            a.heap = handle_of(h);
            assert_int_equal(wh_heap_handle(h, &a.own), WH_OK);
            a.wrong = take(d, sizeof *a.wrong);
            a.keep = take(d, THREADS * sizeof *a.keep);
            const wh_launch l = grid(d, 1, THREADS);
            assert_int_equal(every_call(&l, &a), WH_OK);
            assert_int_equal(*a.wrong, 0);
            wh_stats s;
            assert_int_equal(wh_heap_get_stats(h, &s), WH_OK);
            assert_int_equal(s.live_blocks, THREADS);
            assert_int_equal(free_all(&l, &a), WH_OK);
            assert_int_equal(*a.wrong, 0);
            assert_int_equal(wh_heap_get_stats(h, &s), WH_OK);
            assert_int_equal(s.live_blocks, 0);
            assert_int_equal(s.bad_frees, 0);
            assert_int_equal(wh_heap_check(h, NULL), WH_OK);
            assert_int_equal(wh_heap_destroy(h), WH_OK);
            wh_device_close(d);
        }
    }
}

/* --- handles that do not fit ------------------------------------------------------------- */

/* No call does anything. p: a live block of some heap. Host code is a lane of its own. */
static void refuses(wh_abi1_heap heap, void *p) {
    assert_int_equal(wh_abi1_fits(heap), 0);
    assert_null(wh_abi1_malloc(heap, 16));
    assert_int_equal(wh_abi1_free(heap, p), 1);
    assert_int_equal(wh_abi1_free(heap, NULL), 1);
    assert_null(wh_abi1_calloc(heap, 4, 4));
    assert_null(wh_abi1_realloc(heap, p, 400));
    assert_null(wh_abi1_realloc(heap, p, 0));
    assert_null(wh_abi1_aligned_alloc(heap, 64, 64));
    assert_int_equal(wh_abi1_usable_size(heap, p), 0);
    assert_int_equal(wh_abi1_owns(heap, p), 0);
    assert_null(wh_abi1_malloc_lanes(heap, 1, 16));
    assert_int_equal(wh_abi1_free_lanes(heap, 1, p), 1);
    assert_null(wh_abi1_malloc_warp(heap, 1, 16));
    assert_int_equal(wh_abi1_free_warp(heap, 1, p), 1);
}

static wh_abi_record *record_of(wh_abi1_heap handle) {
    return (wh_abi_record *)(uintptr_t)(handle & ~(wh_abi1_heap)(WH_ABI_RECORD_BYTES - 1));
}

static void test_no_heap(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap *h = create(d);
    const wh_abi1_heap handle = handle_of(h);
    void *p = wh_abi1_malloc(handle, 100);
    assert_non_null(p);
    refuses(0, p);
    for (wh_abi1_heap word = 1; word < WH_ABI_RECORD_BYTES; word++) {
        refuses(word, p);
    }
    refuses(handle | WH_ABI_ON_GPU, p); /* nobody looks there */
    refuses((wh_abi1_heap)1 << 40 | WH_ABI_ON_GPU, p);
    refuses(handle ^ 2, p); /* as if the slot had been given to another heap */
    /* Another version, or another layout: the key is another one. */
    wh_abi_record *record = record_of(handle);
    record->seal++;
    refuses(handle, p);
    record->seal--;
    assert_int_equal(wh_abi1_fits(handle), 1);
    assert_int_equal(record->seal - handle, WH_ABI_SIM_KEY);
    assert_string_equal(record->allocator, "tessera");
    assert_int_equal(record->version, WH_VERSION);
    assert_int_equal(wh_abi1_free(handle, p), 0);
    assert_int_equal(wh_heap_destroy(h), WH_OK);
    wh_device_close(d);
}

WH_KERNEL(malloc_gone, call_args, a) {
    expect(a, wh_abi1_malloc(a.heap, 16) == NULL && wh_abi1_free(a.heap, a.keep) == 1);
}

/* Of a heap that is gone, its device closed or open, in host code and in kernels; also when others
 * have its slot. */
static void test_destroyed(void **state) {
    (void)state;
    enum { HEAPS = 300 };
    static wh_abi1_heap gone[HEAPS];
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap *last = create(d);
    void *p = wh_abi1_malloc(handle_of(last), 16);
    for (uint32_t i = 0; i < HEAPS; i++) {
        wh_device *own = open_policy(WH_SIM_ROUND_ROBIN, i);
        wh_heap *h = create(own);
        gone[i] = handle_of(h);
        assert_int_equal(wh_abi1_fits(gone[i]), 1);
        wh_device_close(own);
        assert_int_equal(wh_heap_destroy(h), WH_OK);
        refuses(gone[i], p);
        refuses(gone[i / 2], p);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(gone[k] != gone[i]);
        }
    }
    call_args a;
    memset(&a, 0, sizeof a);
    a.heap = gone[7];
    a.wrong = take(d, sizeof *a.wrong);
    a.keep = p;
    const wh_launch l = grid(d, 1, 64);
    assert_int_equal(malloc_gone(&l, &a), WH_OK);
    assert_int_equal(*a.wrong, 0);
    assert_int_equal(wh_abi1_free(handle_of(last), p), 0);
    assert_int_equal(wh_heap_destroy(last), WH_OK);
    wh_device_close(d);
}

/* --- the host's call --------------------------------------------------------------------- */

static void test_host_call(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap *h = create(d), *other = create(d);
    wh_abi1_heap handle = 5;
    assert_int_equal(wh_heap_abi1_handle(h, NULL), WH_BAD_ARGUMENT);
    assert_int_equal(wh_heap_abi1_handle(NULL, &handle), WH_BAD_ARGUMENT);
    assert_int_equal(handle, 0);
    handle = handle_of(h);
    assert_int_equal(handle_of(h), handle);
    assert_true(handle_of(other) != handle);
    assert_int_equal(handle % WH_ABI_RECORD_BYTES & WH_ABI_ON_GPU, 0);
    /* A heap of one handle does not know the blocks of another one. */
    void *p = wh_abi1_malloc(handle, 16);
    assert_int_equal(wh_abi1_owns(handle_of(other), p), 0);
    /* Reset leaves the handle alone. */
    assert_int_equal(wh_heap_reset(h), WH_OK);
    assert_int_equal(handle_of(h), handle);
    assert_non_null(wh_abi1_malloc(handle, 16));
    assert_int_equal(wh_heap_destroy(other), WH_OK);
    assert_int_equal(wh_heap_destroy(h), WH_OK);
    if (wh_allocator_find("bump") != NULL) {
        wh_heap_options o;
        memset(&o, 0, sizeof o);
        o.device = d;
        o.bytes = HEAP_BYTES;
        o.allocator = "bump";
        assert_int_equal(wh_heap_create(&h, &o), WH_OK);
        handle = 5;
        assert_int_equal(wh_heap_abi1_handle(h, &handle), WH_WRONG_ALLOCATOR);
        assert_int_equal(handle, 0);
        assert_non_null(strstr(wh_last_error_text(), "'bump'"));
        assert_int_equal(wh_heap_destroy(h), WH_OK);
    }
    wh_device_close(d);
}

/* A heap in reserved addresses keeps its handle when it gets more memory. */
static void test_extended(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap_options o;
    wh_heap *h = NULL;
    memset(&o, 0, sizeof o);
    o.device = d;
    o.bytes = HEAP_BYTES;
    o.reserve_bytes = 16 * HEAP_BYTES;
    assert_int_equal(wh_heap_create(&h, &o), WH_OK);
    const wh_abi1_heap handle = handle_of(h);
    const uint64_t most = HEAP_BYTES * 2;
    assert_null(wh_abi1_malloc(handle, most));
    assert_int_equal(wh_heap_extend(h, 3 * HEAP_BYTES), WH_OK);
    assert_int_equal(handle_of(h), handle);
    void *p = wh_abi1_malloc(handle, most);
    assert_non_null(p);
    assert_int_equal(wh_abi1_free(handle, p), 0);
    assert_int_equal(wh_heap_destroy(h), WH_OK);
    wh_device_close(d);
}

/* Host code has no lane but the first: a mask with others ends the program, which says why. */
static void test_mask_of_the_host(void **state) {
    (void)state;
    wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, 0);
    wh_heap *h = create(d);
    const wh_abi1_heap handle = handle_of(h);
    void *p = wh_abi1_malloc_warp(handle, 1, 16);
    assert_int_equal(wh_abi1_free_lanes(handle, 1, p), 0);
    int ends[2], status = 0;
    char said[200] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* cmocka's */
        if (dup2(ends[1], STDERR_FILENO) >= 0) {
            (void)wh_abi1_malloc_lanes(handle, 0xffffffff, 16);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_int_equal(close(ends[1]), 0);
    assert_true(read(ends[0], said, sizeof said - 1) > 0);
    assert_int_equal(close(ends[0]), 0);
    assert_non_null(strstr(said, "its mask is 1, not 0xffffffff"));
    assert_int_equal(wh_heap_destroy(h), WH_OK);
    wh_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call), cmocka_unit_test(test_no_heap),
        cmocka_unit_test(test_destroyed),  cmocka_unit_test(test_host_call),
        cmocka_unit_test(test_extended),   cmocka_unit_test(test_mask_of_the_host),
    };
    return cmocka_run_group_tests_name("abi", tests, NULL, NULL);
}
