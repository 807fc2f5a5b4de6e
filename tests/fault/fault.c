/* fault.c: plants faults in core/ and the allocators, or, as the programs fault_graph, fault_ops,
 * fault_kdtree, fault_arena and fault_checked, in warpheap::graph, ops and kdtree, in arenas and in
 * checked heaps, one at a time.
 * Shows that the simulated device finds each within a few seeds, and nothing without one. What it
 * finds is printed with the command that repeats it.
 *
 *   fault [SUITE]               all of them, or those of one suite: core, gallatin, ...
 *   fault sound [SUITE]         the workloads alone, without a fault: nothing may be found
 *   fault child WORKLOAD [SEED] one workload, with the fault named in WH_FAULT: replays; without a
 *                               seed all of them, from WH_TEST_FIRST_SEED on, until one finds it
 *   fault list                  the faults of this build: SUITE TAG WORKLOAD
 *
 * A fault in the logic (a re-check or a test left out) shows as a lost item, a bad block,
 * a NULL with memory free, or a broken invariant. Lost order (relaxed instead of release
 * or acquire) shows as a data race, in the ThreadSanitizer build alone.
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

#if defined(FAULT_OF_GRAPH)
#include "fault/graph/graph.h"
#elif defined(FAULT_OF_OPS)
#include "fault/ops/ops.h"
#elif defined(FAULT_OF_KDTREE)
#include "fault/kdtree/kdtree.h"
#elif defined(FAULT_OF_ARENA)
#include "fault/arena/arena.h"
#elif defined(FAULT_OF_CHECKED)
#include "fault/checked/checked.h"
#elif defined(FAULT_OF_CPP)
#include "fault/cpp/cpp.h"
#else
#include "fault/fault.h"
#endif

/* How many seeds at most, for one fault, if a suite does not say; WH_TEST_SEEDS may ask for more.
 * Without a fault half of these are tried, which all pass; in a checked build without WH_TEST_SEEDS
 * a quarter. */
#define SEEDS 200u

static int seeds_asked_for(void) {
    const char *text = getenv("WH_TEST_SEEDS");
    return text != NULL ? atoi(text) : 0;
}

/* A checked build, which is slow, and nobody has asked for seeds. */
static int is_brief(void) {
    return WH_TEST_SEEDS_DEFAULT < 10 && seeds_asked_for() <= 0;
}

static uint64_t n_seeds(const suite *s, int has_fault) {
    const int n = seeds_asked_for();
    if (s->has_own_seeds) {
        return 1;
    }
    const uint32_t seeds = s->seeds != 0 ? s->seeds : SEEDS;
    const uint64_t few = is_brief() ? seeds / 4 : seeds / 2;
    const uint64_t own = has_fault ? seeds : few;
    return n > (int)seeds ? (uint64_t)n : own;
}

static const suite *const suites[] = {FAULT_SUITES};
#define N_SUITES (sizeof suites / sizeof *suites)

/* A workload, and its suite; NULL: there is none of this name. */
static const workload *find(const char *name, const suite **of) {
    for (size_t i = 0; i < N_SUITES; i++) {
        *of = suites[i];
        for (const workload *w = suites[i]->workloads; w->name != NULL; w++) {
            if (strcmp(w->name, name) == 0) {
                return w;
            }
        }
    }
    return NULL;
}

/* All seeds until one finds something; ThreadSanitizer turns a race into 66. 127: there is no
 * workload of this name. */
static int child(const char *name, const char *seed) {
    const suite *of = NULL;
    const workload *w = find(name, &of);
    if (w == NULL) {
        return 127;
    }
    if (seed != NULL) {
        return fault_run(of, w, strtoull(seed, NULL, 10));
    }
    const char *planted = getenv("WH_FAULT");
    const uint64_t most = n_seeds(of, planted != NULL && strcmp(planted, "none") != 0);
    const char *from = getenv("WH_TEST_FIRST_SEED");
    const uint64_t first = from != NULL && !of->has_own_seeds ? strtoull(from, NULL, 10) : 1;
    for (uint64_t k = first; k < first + most; k++) {
        printf("%u\n", (unsigned)k); /* the last line says where it ended, however it did */
        (void)fflush(stdout);
        if (fault_run(of, w, k) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Whether a process of its own finds something wrong with the fault planted: it may
 * crash. */
static int is_found(const char *tag, const char *name, unsigned *seed) {
    int out[2];
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    assert_int_equal(fflush(NULL), 0);
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int keep = getenv("WH_FAULT_SHOW") != NULL || strcmp(tag, "none") == 0;
        if (setenv("WH_FAULT", tag, 1) != 0 ||
            setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66", 1) != 0 ||
            dup2(out[1], STDOUT_FILENO) < 0 ||
            (!keep && freopen("/dev/null", "w", stderr) == NULL)) {
            _exit(127);
        }
        (void)execl(self, self, "child", name, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    assert_non_null(lines);
    while (fscanf(lines, "%u", seed) == 1) {
    }
    (void)fclose(lines);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void is_sound(const char *name) {
    unsigned seed = 0;
    if (is_found("none", name, &seed)) {
        fail_msg("%s: something is wrong without a fault: fault child %s %u", name, name, seed);
    }
}

/* The suite's tables are the state of both tests. */
static void nothing_without_a_fault(void **state) {
    const suite *s = *state;
    for (const workload *w = s->workloads; w->name != NULL; w++) {
        is_sound(w->name);
    }
}

#ifdef WH_TSAN
#define IS_TSAN 1
#else
#define IS_TSAN 0
#endif

/* Whether a fault is planted in this build. Where a fault shows in several builds, the one without
 * sanitizers, which is the fastest, plants it; the others do so if WH_TEST_SEEDS asks for more. */
static int is_due(const fault *f) {
    if (f->where == EVERYWHERE) {
        return !is_brief();
    }
    return f->where == UNDER_TSAN ? IS_TSAN : !IS_TSAN && !is_brief();
}

static void every_fault_is_found(void **state) {
    const suite *s = *state;
    unsigned n_found = 0, n_elsewhere = 0, missed = 0;
    for (const fault *f = s->faults; f->tag != NULL; f++) {
        unsigned seed = 0;
        if (!is_due(f)) {
            n_elsewhere++;
        } else if (is_found(f->tag, f->workload, &seed)) {
            printf("found %s: WH_FAULT=%s fault child %s %u\n", f->tag, f->tag, f->workload, seed);
            n_found++;
        } else {
            fprintf(stderr, "%s was not found by %s in %u seeds\n", f->tag, f->workload,
                    (unsigned)n_seeds(s, 1));
            missed++;
        }
    }
    printf("%s: %u found, %u missed, %u for other builds\n", s->name, n_found, missed, n_elsewhere);
    assert_int_equal(missed, 0);
}

static int list(void) {
    for (size_t i = 0; i < N_SUITES; i++) {
        for (const fault *f = suites[i]->faults; f->tag != NULL; f++) {
            if (is_due(f)) {
                printf("%s %s %s\n", suites[i]->name, f->tag, f->workload);
            }
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        return list();
    }
    if (argc >= 3 && strcmp(argv[1], "child") == 0) {
        return child(argv[2], argc > 3 ? argv[3] : NULL);
    }
    int failed = 0, known = 0;
    const int sound = argc > 1 && strcmp(argv[1], "sound") == 0;
    const char *name = argc > 1 + sound ? argv[1 + sound] : NULL;
    for (size_t i = 0; i < N_SUITES; i++) {
        suite s = *suites[i];
        if (name != NULL && strcmp(name, s.name) != 0) {
            continue;
        }
        const struct CMUnitTest tests[] = {
            {"nothing_without_a_fault", nothing_without_a_fault, NULL, NULL, &s},
            {"every_fault_is_found", every_fault_is_found, NULL, NULL, &s}};
        known++;
        cmocka_set_test_filter(sound ? tests[0].name : NULL);
        failed += cmocka_run_group_tests_name(s.name, tests, NULL, NULL);
    }
    if (known == 0) {
        fprintf(stderr,
                "usage: fault [sound] [SUITE] | fault list | fault child WORKLOAD [SEED]\n");
        return 2;
    }
    return failed != 0;
}
