/* faults.c: plants faults in workload/graph/graph.h, one at a time, and shows that the graph
 * case finds each on the simulated device within a few seeds. Lost order (a relaxed
 * lock or unlock) is visible to ThreadSanitizer only and is planted in its build alone.
 *
 * Each fault runs in a process of its own: it may crash. This program starts itself
 * again with the argument "child" and the fault's name in WH_FAULT.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The graph's kernels once more, with WH_PLANT at work, under another name. */
#undef WH_FAULTS
#define WH_FAULTS 1
#define WH_ALLOCATOR bump
#include "warpheap/warpheap.h"
#undef WH_TARGETED
#define WH_TARGETED(name) WH_CAT(name, _faults)
#include "workload/graph/graph_kernels.c" /* NOLINT: targeted source, see above */

#include "workload/graph/graph_case.h"

/* Few seeds, small graph: CI time. */
#define SEEDS 8u

typedef struct verdict {
    uint64_t bad;
    uint64_t failed;
} verdict;

static void add_row(void *context, const wh_graph_case_row *row) {
    verdict *v = context;
    v->bad += row->bad;
    v->failed += row->failed;
}

/* A run of the case in which every batch falls on two vertices. Returns 0 when
 * nothing was wrong. */
static int run_seed(uint64_t seed) {
    static uint32_t from[600], to[600];
    wh_graph_arcs a;
    wh_graph_case_options o;
    wh_sim_options sim;
    wh_heap_options ho;
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    verdict v = {0, 0};
    char error[256] = "";
    memset(&a, 0, sizeof a);
    memset(&o, 0, sizeof o);
    memset(&sim, 0, sizeof sim);
    memset(&ho, 0, sizeof ho);
    for (uint32_t i = 0; i < 600; i++) {
        from[i] = i % 20;
        to[i] = i * 7 % 20;
    }
    a.n_vertices = 20;
    a.n_arcs = a.n_entries = 600;
    a.from = from;
    a.to = to;
    o.arcs = &a;
    o.emit = add_row;
    o.context = &v;
    o.reps = 2;
    o.batch = 300;
    o.focus = 2;
    o.seed = seed;
    sim.seed = seed;
    sim.policy = seed % 2 != 0 ? WH_SIM_RANDOM : WH_SIM_STICKY;
    sim.step_budget = 20000000;
    ho.allocator = "bump";
    ho.bytes = 16u << 20;
    wh_status s = wh_device_open(&device, "sim", &sim);
    if (s == WH_OK) {
        ho.device = device;
        s = wh_heap_create(&heap, &ho);
    }
    if (s == WH_OK) {
        s = wh_graph_case_run(&o, heap, &wh_multigraph_kernels_bump_faults, error, sizeof error);
    }
    wh_heap_destroy(heap);
    wh_device_close(device);
    return s != WH_OK || v.bad != 0 || v.failed != 0;
}

/* 0: no seed found anything. ThreadSanitizer turns that into 66 if it did. */
static int child(void) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (run_seed(seed) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Runs the child with a fault planted, quietly; returns whether it found something. */
static int is_found(const char *fault) {
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    assert_int_equal(fflush(NULL), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setenv("WH_FAULT", fault, 1) != 0 || freopen("/dev/null", "w", stderr) == NULL) {
            _exit(127);
        }
        (void)execl(self, self, "child", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void sound(void **state) {
    (void)state;
    assert_false(is_found("none"));
}

static void found(void **state) {
    static const char *const faults[] = {
        "graph_lock", /* a lock that is held counts as taken */
        "graph_sync", /* the leader does not wait for its group */
        "graph_nth",  /* two lanes take the same occurrence */
#ifdef WH_TSAN
        "graph_acquire", "graph_release",
#endif
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (!is_found(faults[i])) {
            fail_msg("%s was not found in %u seeds", faults[i], SEEDS);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sound), cmocka_unit_test(found)};
    if (argc == 2 && strcmp(argv[1], "child") == 0) {
        return child();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
