/* repeat.c: the same seed gives the same run, bit for bit, in another process as well:
 * where the system puts device memory shows neither in the schedule nor in what an
 * allocator with small segments does. The program runs itself a few times, each time
 * with memory laid out in another way. */
#include "sim_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "warpheap/warpheap.h"

#define ITEMS 4096u

typedef struct churn_args {
    wh_heap_ref heap;
    uint64_t *events; /* what each malloc gave, in the order of the answers */
    uint32_t *next;
    unsigned char *base;
    uint32_t steps;
} churn_args;

WH_KERNEL(churn, churn_args, a) {
    uint64_t random = wh_thread_id() + 1;
    void *held[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < a.steps; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t k = (uint32_t)(random >> 33) % 3;
        if (held[k] != NULL) {
            wh_free(a.heap, held[k]);
            held[k] = NULL;
        } else {
            held[k] = wh_malloc(a.heap, 1 + (random >> 40) % 20000);
            const uint32_t at = wh_fetch_add_u32_relaxed(a.next, 1);
            if (at < ITEMS) {
                const uint64_t offset = (uint64_t)((unsigned char *)held[k] - a.base);
                a.events[at] = held[k] != NULL ? offset << 16 | wh_thread_id() : ~(uint64_t)0;
            }
        }
    }
    for (uint32_t k = 0; k < 3; k++) {
        wh_free(a.heap, held[k]);
    }
}

/* One run; its schedule goes to `log`, a hash of its results to stdout. */
static int child(const char *policy, const char *seed, const char *log, const char *shift) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = (wh_sim_policy)atoi(policy);
    o.seed = strtoull(seed, NULL, 10);
    o.record = log;
    wh_device *d = NULL;
    wh_heap *heap = NULL;
    wh_heap_options h;
    churn_args a;
    void *unused = NULL, *events = NULL, *next = NULL;
    memset(&h, 0, sizeof h);
    memset(&a, 0, sizeof a);
    wh_status s = wh_device_open(&d, "sim", &o);
    /* Nothing but addresses comes of these. */
    void *volatile moved = malloc(strtoull(shift, NULL, 10) * 1000 + 1);
    s = s == WH_OK ? wh_device_alloc(d, &unused, strtoull(shift, NULL, 10) * 5003 + 1) : s;
    h.device = d;
    h.bytes = 600000; /* so few chunks that one more or less changes everything */
    s = s == WH_OK ? wh_heap_create(&heap, &h) : s;
    s = s == WH_OK ? wh_heap_handle(heap, &a.heap) : s;
    s = s == WH_OK ? wh_device_alloc(d, &events, ITEMS * 8) : s;
    s = s == WH_OK ? wh_device_set(d, events, 0, ITEMS * 8) : s;
    s = s == WH_OK ? wh_device_alloc(d, &next, 4) : s;
    s = s == WH_OK ? wh_device_set(d, next, 0, 4) : s;
    a.events = events;
    a.next = next;
    a.base = a.heap.core.base;
    a.steps = 20;
    const wh_launch l = {d, 3, 40, NULL};
    s = s == WH_OK ? churn(&l, &a) : s;
    wh_stats stats;
    s = s == WH_OK ? wh_heap_get_stats(heap, &stats) : s;
    wh_device_counters c;
    s = s == WH_OK ? wh_device_get_counters(d, &c) : s;
    if (s != WH_OK) {
        printf("%s %s\n", wh_status_name(s), d != NULL ? wh_device_error_text(d) : "");
        return 1;
    }
    uint64_t hash = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        hash = (hash ^ a.events[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    printf("%016llx of %u, %llu failed, %llu steps, %llu bytes of metadata\n",
           (unsigned long long)hash, (unsigned)*a.next, (unsigned long long)stats.failed,
           (unsigned long long)c.steps, (unsigned long long)stats.metadata_bytes);
    wh_heap_destroy(heap);
    wh_device_close(d);
    free(moved);
    return stats.failed == 0; /* the heap has to be full at times */
}

/* Whether two files are the same; neither may be empty. */
static bool same_files(const char *path_a, const char *path_b) {
    FILE *a = fopen(path_a, "r"), *b = fopen(path_b, "r");
    assert_non_null(a);
    assert_non_null(b);
    int c = 0;
    uint64_t bytes = 0;
    bool same = true;
    while (same && (c = getc(a)) != EOF) {
        same = getc(b) == c;
        bytes++;
    }
    same = same && getc(b) == EOF && bytes > 0;
    (void)fclose(a);
    (void)fclose(b);
    return same;
}

static void test_repeats(void **state) {
    (void)state;
    char self[4096], path[2][64];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path[i], sizeof path[i], "/tmp/wh_repeat_%ld_%d.txt", (long)getpid(), i);
    }
    for (uint32_t p = 0; p < N_POLICIES; p++) {
        char first_line[200] = "", line[200];
        for (uint32_t i = 0; i < 3; i++) {
            char command[4300];
            (void)snprintf(command, sizeof command, "'%s' child %u 11 %s %u", self, (unsigned)p,
                           path[i != 0], (unsigned)(i * i));
            FILE *out = popen(command, "r");
            assert_non_null(out);
            assert_non_null(fgets(line, sizeof line, out));
            if (pclose(out) != 0) {
                fail_msg("%s: %s", command, line);
            }
            if (i == 0) {
                memcpy(first_line, line, sizeof line);
            } else {
                assert_string_equal(line, first_line);
                assert_true(same_files(path[0], path[1]));
            }
        }
    }
    (void)remove(path[0]);
    (void)remove(path[1]);
}

/* Allocations of one device and of another lie alike. */
static void test_alignment(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        wh_device *d = open_policy(WH_SIM_ROUND_ROBIN, i);
        for (uint64_t bytes = 1; bytes < (64 << 20); bytes = bytes * 7 + i) {
            void *p = NULL;
            assert_int_equal(wh_device_alloc(d, &p, bytes), WH_OK);
            assert_int_equal((uintptr_t)p % (1 << 20), 0);
        }
        wh_device_close(d);
    }
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "child") == 0) {
        return child(argv[2], argv[3], argv[4], argv[5]);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_repeats),
                                       cmocka_unit_test(test_alignment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
