/* explore.c: all schedules of small bodies with few preemptions, many random ones, and lanes that
 * stop for ever: over core/ and the default heap.
 *
 *   explore                       quick tests of all of these, and that planted faults are found
 *   explore exhaustive [BODY] [preemptions=2] [most=N] [seconds=N] [file=PATH]
 *                                 all schedules with so few preemptions; the first that is wrong
 *                                 goes to the file
 *   explore many BODY [policy=NAME]    WH_TEST_SEEDS seeds from WH_TEST_FIRST_SEED on
 *   explore run BODY [policy=NAME] [seed=N]    one: it repeats what another word has found
 *   explore find BODY [policy=NAME] [seed=N] [most=N]    how many seeds from N on until one is
 * wrong; policy=exhaustive: how many schedules explore stop [BODY]           which lanes wait for
 * ever for one that has stopped explore bodies                their names A fault is planted by
 * WH_FAULT=tag. Exit status: 1 if something was wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "explore/explore.h"

#define UNUSED __attribute__((unused))

static const char *const policies[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
    WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
};

typedef struct words {
    const char *what, *body, *policy, *file;
    uint64_t preemptions, most, seconds, seed;
} words;

/* --- bodies
 * ---------------------------------------------------------------------------------------- */

/* The i-th of both tables; NULL: there are no more. */
static const body *body_at(size_t i) {
    for (const body *b = core_bodies; b->name != NULL; b++, i--) {
        if (i == 0) {
            return b;
        }
    }
    for (const body *b = heap_bodies; b->name != NULL; b++, i--) {
        if (i == 0) {
            return b;
        }
    }
    return NULL;
}

static const body *body_named(const char *name) {
    const body *b = NULL;
    for (size_t i = 0; (b = body_at(i)) != NULL && strcmp(b->name, name) != 0; i++) {
    }
    return b;
}

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

/* --- many seeds
 * -------------------------------------------------------------------------------------- */

/* Two stages for the seeds, one of which returns old values; which one is the seed's. */
typedef struct pair {
    stage s[2];
} pair;

static int pair_open(pair *p, const body *b, uint32_t policy) {
    for (uint32_t weak = 0; weak < 2; weak++) {
        wh_sim_options o;
        memset(&o, 0, sizeof o);
        o.policy = (wh_sim_policy)policy;
        o.weak = weak != 0 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
        if (stage_open(&p->s[weak], b, &o) != WH_OK) {
            fprintf(stderr, "%s\n", p->s[weak].text);
            if (weak != 0) {
                stage_close(&p->s[0]);
            }
            return 0;
        }
    }
    return 1;
}

static void pair_close(pair *p) {
    stage_close(&p->s[0]);
    stage_close(&p->s[1]);
}

static stage *pair_run(pair *p, uint64_t seed, int *wrong) {
    stage *s = &p->s[seed % 3 == 2];
    stage_reset(s);
    whi_sim_seed(s->device, seed);
    *wrong = stage_run(s, (uint32_t)seed);
    return s;
}

/* How many of n seeds until one is wrong; 0: none is. */
static uint64_t try_seeds(const body *b, uint32_t policy, uint64_t first, uint64_t n, int tells) {
    pair p;
    uint64_t found = 0;
    if (!pair_open(&p, b, policy)) {
        return 1;
    }
    for (uint64_t k = 0; k < n && found == 0; k++) {
        int wrong = 0;
        const stage *s = pair_run(&p, first + k, &wrong);
        if (wrong) {
            found = k + 1;
            if (tells) {
                printf("FAILED: %s\n  repeat: explore run %s policy=%s seed=%llu\n", s->text,
                       b->name, policies[policy], (unsigned long long)(first + k));
            }
        }
    }
    pair_close(&p);
    return found;
}

static int many(const words *w, const body *b) {
    const uint64_t first = from_environment("WH_TEST_FIRST_SEED", 1);
    const uint64_t n = from_environment("WH_TEST_SEEDS", WH_TEST_SEEDS_DEFAULT);
    int failed = 0;
    for (uint32_t p = 0; p < WH_SIM_POLICY_COUNT; p++) {
        if (w->policy == NULL || strcmp(w->policy, policies[p]) == 0) {
            failed |= try_seeds(b, p, first, n, 1) != 0;
        }
    }
    return failed;
}

static int run_one(const words *w, const body *b) {
    pair p;
    int wrong = 1;
    uint32_t policy = 0;
    while (w->policy != NULL && strcmp(w->policy, policies[policy]) != 0) {
        policy++;
    }
    if (pair_open(&p, b, policy)) {
        const stage *s = pair_run(&p, w->seed, &wrong);
        printf("%s\n", wrong ? s->text : "nothing is wrong");
        pair_close(&p);
    }
    return wrong;
}

/* --- all schedules
 * ------------------------------------------------------------------------------------ */

static int search_body(const words *w, const body *b) {
    wh_sim_options o;
    stage s;
    memset(&o, 0, sizeof o);
    if (stage_open(&s, b, &o) != WH_OK) {
        fprintf(stderr, "%s\n", s.text);
        return 1;
    }
    const double start = now();
    const searched r = search_all(&s, (uint32_t)w->seed, (uint32_t)w->preemptions, w->most,
                                  (double)w->seconds, w->file);
    printf("%-16s %u lanes, %u preemptions: %9llu schedules of up to %llu choices, %s, %.1f s\n",
           b->name, b->lanes, r.preemptions, (unsigned long long)r.schedules,
           (unsigned long long)r.most_choices, r.complete ? "all" : "cut short", now() - start);
    (void)fflush(stdout);
    if (r.until != 0) {
        printf("FAILED: %s, after %llu schedules\n", s.text, (unsigned long long)r.until);
        if (w->file != NULL) {
            printf("  repeat: WH_SIM=replay=%s explore run %s seed=%llu\n", w->file, b->name,
                   (unsigned long long)w->seed);
        }
    }
    stage_close(&s);
    return r.until != 0;
}

static int find(const words *w, const body *b) {
    uint64_t until = 0;
    if (w->policy != NULL && strcmp(w->policy, "exhaustive") == 0) {
        wh_sim_options o;
        stage s;
        memset(&o, 0, sizeof o);
        if (stage_open(&s, b, &o) != WH_OK) {
            return 1;
        }
        until = search_all(&s, (uint32_t)w->seed, (uint32_t)w->preemptions, w->most,
                           (double)w->seconds, NULL)
                    .until;
        stage_close(&s);
    } else {
        uint32_t policy = 0;
        while (w->policy != NULL && strcmp(w->policy, policies[policy]) != 0) {
            policy++;
        }
        until = try_seeds(b, policy, w->seed, w->most, 0);
    }
    printf("%llu\n", (unsigned long long)until);
    return until != 0;
}

/* --- lanes that stop
 * ------------------------------------------------------------------------------------- */

/* Where the first lane stops: of a heap's body, in a call or between two of them. */
typedef enum place { IN_MALLOC, IN_FREE, ELSEWHERE, PLACES } place;
static const char *const place_texts[PLACES] = {"malloc", "free", "elsewhere"};

/* What a lane had begun when it stopped, of a heap: what it leaves is there for ever. */
typedef enum cause { A_TAKE, A_REFILL, A_SEARCH, A_RUN, NOTHING, CAUSES } cause;
static const char *const cause_texts[CAUSES] = {
    "a take (steps.h P4)", "the refill of a cursor (cursor.h C1)", "a search for all (oom.h)",
    "a look for a run (runs.h)", "none of these"};

typedef struct stopped {
    uint64_t runs[PLACES];    /* in which the first lane was stopped there */
    uint64_t blocked[PLACES]; /* of these: another lane waits for ever */
    uint64_t waiting[PLACES]; /* in those: what the others do at the end */
    uint64_t causes[CAUSES];  /* of a heap: of those runs */
    uint64_t cut;             /* kernels that ended somewhere in the middle */
    int is_wrong;             /* the heap cannot be checked, or is not whole after a reset */
} stopped;

/* Of several: what others wait for longest. */
static cause cause_of(const stage *s) {
    const wh_tessera_core *g = wh_tessera_core_of_(s->args.heap);
    const wh_tessera_header *header = wh_tessera_header_(*g);
    const wh_tessera_shard *shard = wh_tessera_shard_at_(*g, 0);
    if ((uint32_t)(shard->takes >> 32) != shard->takes_done) {
        return A_TAKE;
    }
    for (uint32_t c = 0; c < WH_TESSERA_CLASSES; c++) {
        const uint64_t span = shard->cursors[c].span;
        if (!wh_tessera_is_settled(span) && !wh_tessera_has_slots(span)) {
            return A_REFILL;
        }
    }
    if (header->search_lock != 0) {
        return A_SEARCH;
    }
    return header->run_lock != 0 ? A_RUN : NOTHING;
}

static place place_of(const stage *s, uint32_t lane) {
    const uint32_t n = s->args.m->n_ops[lane];
    if (n == 0 || s->args.m->history[lane][n - 1].returned != 0) {
        return ELSEWHERE;
    }
    return s->args.m->history[lane][n - 1].bytes != 0 ? IN_MALLOC : IN_FREE;
}

#define STOP_SEEDS 4u
#define STOP_BUDGET 60000u

/* What a kernel that has stopped leaves: the check says something and ends, and after a reset all
 * memory can be had. */
static int heap_comes_back(stage *s) {
    wh_report report;
    const wh_status checked = wh_heap_check(s->heap, &report);
    if (checked != WH_OK && checked != WH_CORRUPT) {
        (void)snprintf(s->text, sizeof s->text, "the check is %s", wh_status_name(checked));
        return 0;
    }
    wh_status status = wh_heap_reset(s->heap);
    status = status == WH_OK ? wh_heap_check(s->heap, &report) : status;
    if (status != WH_OK) {
        (void)snprintf(s->text, sizeof s->text, "after a reset the check is %s, I%u",
                       wh_status_name(status), (unsigned)report.first_tag);
        return 0;
    }
    memcpy(s->args.m, s->first_memory, sizeof(memory));
    return stage_run(s, 1) == 0;
}

/* One run in which the first lane stops at its n-th point. 0: it has ended before. */
static int stop_once(stage *s, uint64_t n, uint32_t seed, stopped *r) {
    stage_reset(s);
    whi_sim_seed(s->device, n * STOP_SEEDS + seed);
    whi_sim_stop(s->device, 0, n);
    const wh_launch l = wh_grid(s->device, s->b->lanes, 1);
    s->args.seed = seed;
    const wh_status status = s->b->kernel(&l, &s->args);
    whi_sim_end_schedule(s->device);
    if (status != WH_OK) {
        const place at = place_of(s, 0);
        const int blocked = strstr(wh_device_error_text(s->device), WHI_SIM_STOPPED) == NULL;
        r->runs[at]++;
        r->blocked[at] += (uint64_t)blocked;
        if (blocked && s->heap != NULL) {
            r->causes[cause_of(s)]++;
        }
        for (uint32_t lane = 1; blocked && lane < s->b->lanes; lane++) {
            r->waiting[place_of(s, lane)]++;
        }
    }
    if (s->heap != NULL && !heap_comes_back(s)) {
        printf("FAILED: %s, lane 0 stopped at point %llu, seed %u: %s\n", s->b->name,
               (unsigned long long)n, (unsigned)seed, s->text);
        r->is_wrong = 1;
    }
    return status != WH_OK || whi_sim_asked(s->device) >= n;
}

/* One kernel that ends with all its lanes at its n-th point, as if one had trapped. 0: it has ended
 * before. */
static int cut_once(stage *s, uint64_t n, stopped *r) {
    stage_reset(s);
    whi_sim_seed(s->device, n);
    whi_sim_budget(s->device, n);
    const wh_launch l = wh_grid(s->device, s->b->lanes, 1);
    s->args.seed = (uint32_t)n;
    const wh_status status = s->b->kernel(&l, &s->args);
    whi_sim_end_schedule(s->device);
    whi_sim_budget(s->device, STOP_BUDGET);
    r->cut += status != WH_OK;
    if (!heap_comes_back(s)) {
        printf("FAILED: %s, cut at point %llu: %s\n", s->b->name, (unsigned long long)n, s->text);
        r->is_wrong = 1;
    }
    return status != WH_OK;
}

/* The first lane stops at each of its points; the others go on under a few seeds. */
static stopped stop_body(const body *b, uint32_t seeds) {
    stopped r;
    memset(&r, 0, sizeof r);
    wh_sim_options o;
    stage s;
    memset(&o, 0, sizeof o);
    o.policy = WH_SIM_RANDOM;
    o.step_budget = STOP_BUDGET;
    if (stage_open(&s, b, &o) != WH_OK) {
        r.is_wrong = 1;
        return r;
    }
    int reached = 1;
    for (uint64_t n = 1; reached && !r.is_wrong; n++) {
        reached = 0;
        for (uint32_t seed = 0; seed < seeds && !r.is_wrong; seed++) {
            reached |= stop_once(&s, n, seed, &r);
        }
    }
    for (uint64_t n = 1; s.heap != NULL && !r.is_wrong && cut_once(&s, n, &r); n++) {
    }
    stage_close(&s);
    r.is_wrong |= r.causes[NOTHING] != 0 || r.waiting[IN_FREE] != 0; /* nobody waits in a free */
    return r;
}

static int stop(const body *b, uint32_t seeds) {
    const stopped r = stop_body(b, seeds);
    for (uint32_t p = 0; p < PLACES; p++) {
        if (r.runs[p] != 0) {
            printf("%-14s %u lanes, one stops in %-9s %5llu times: others wait for ever %5llu\n",
                   b->name, b->lanes, place_texts[p], (unsigned long long)r.runs[p],
                   (unsigned long long)r.blocked[p]);
        }
    }
    for (uint32_t c = 0; c < CAUSES; c++) {
        if (r.causes[c] != 0) {
            printf("    %5llu of these waits: it had begun %s\n", (unsigned long long)r.causes[c],
                   cause_texts[c]);
        }
    }
    if (r.cut != 0) {
        printf("    %llu kernels more were cut in the middle\n", (unsigned long long)r.cut);
    }
    return r.is_wrong;
}

/* --- quick tests
 * ------------------------------------------------------------------------------------------- */

#define QUICK_SCHEDULES 20000u

static char file[64];

static UNUSED void test_all_schedules(void **state) {
    (void)state;
    const body *b = NULL;
    for (size_t i = 0; (b = body_at(i)) != NULL; i++) {
        const words w = {
            .preemptions = b->preemptions, .most = QUICK_SCHEDULES, .seconds = 1, .seed = 1};
        assert_int_equal(search_body(&w, b), 0);
    }
}

static void test_many(void **state) {
    (void)state;
    const body *b = NULL;
    for (size_t i = 0; (b = body_at(i)) != NULL; i++) {
        const words w = {.policy = NULL};
        assert_int_equal(many(&w, b), 0);
    }
}

/* Faults that the search of all schedules finds, with a body that shows them. Its schedule is then
 * a file that shows them again. */
static const struct {
    const char *tag, *body;
} planted[] = {
    {"veb_r1", "veb.toggle"},
    {"veb_r1_range", "veb.range"},
    {"bulksem_i1", "bulk_semaphore"},
    {"bulksem_i2", "bulk_semaphore"},
    {"chunkpool_p2", "chunk_pool"},
    {"vqueue_i5", "vqueue"},
    {"vqueue_i2_batch", "vqueue"},
    {"tessera_x1_settled", "heap.quarters3"},
    {"tessera_x1_quiet", "heap.quarters3"},
    {"explore_window", "window"},
};

static UNUSED void test_planted(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        const body *b = body_named(planted[i].body);
        if (WH_TEST_SEEDS_DEFAULT < 10 && (b->chunks != 0 || strcmp(b->name, "window") == 0)) {
            continue; /* a checked build takes half a minute */
        }
        wh_sim_options o;
        stage s;
        memset(&o, 0, sizeof o);
        wh_fault_plant(planted[i].tag);
        assert_int_equal(stage_open(&s, b, &o), WH_OK);
        const searched r = search_all(&s, 1, 2, UINT64_MAX, 60, file);
        stage_close(&s);
        printf("%s: found in %s after %llu schedules\n", planted[i].tag, b->name,
               (unsigned long long)r.until);
        assert_true(r.until != 0);
        o.replay = file;
        assert_int_equal(stage_open(&s, b, &o), WH_OK);
        assert_int_not_equal(stage_run(&s, 1), 0);
        stage_close(&s);
        wh_fault_plant("none");
    }
}

/* Histories that no heap may have. */
static void test_histories(void **state) {
    (void)state;
    static const history_heap two = {1000, 200, 0, 100, 2, 2};
    static const struct {
        history_op ops[4];
        size_t n;
        history_fault fault;
    } cases[] = {
        {{{1, 2, 1000, 100}, {3, 4, 1100, 100}, {5, 6, 0, 100}}, 3, HISTORY_SOUND},
        {{{1, 2, 1000, 100}, {5, 6, 0, 100}}, 2, HISTORY_NULL},
        {{{1, 2, 1000, 100}, {3, 9, 1100, 100}, {5, 6, 0, 100}}, 3, HISTORY_SOUND},
        {{{1, 2, 1000, 100}, {3, 4, 1100, 100}, {5, 6, 1100, 0}, {7, 8, 0, 100}}, 4, HISTORY_NULL},
        {{{1, 2, 1000, 100}, {3, 4, 1100, 100}, {5, 7, 1100, 0}, {6, 8, 0, 100}}, 4, HISTORY_SOUND},
        {{{1, 2, 1000, 100}, {3, 4, 1050, 100}}, 2, HISTORY_TWICE},
        {{{1, 2, 1000, 100}, {3, 4, 1000, 0}, {5, 6, 1000, 100}}, 3, HISTORY_SOUND},
        {{{1, 2, 1000, 100}, {4, 5, 1000, 0}, {1, 3, 1000, 100}}, 3, HISTORY_TWICE},
        {{{1, 2, 1150, 100}}, 1, HISTORY_OUTSIDE},
        {{{1, 2, 1000, 100}, {3, 4, 1100, 0}}, 2, HISTORY_FOREIGN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t where = 0;
        const history_fault f = history_check(cases[i].ops, cases[i].n, &two, &where);
        if (f != cases[i].fault) {
            fail_msg("case %zu: %s", i, history_fault_texts[f]);
        }
    }
}

static void test_stop(void **state) {
    (void)state;
    const body *b = NULL;
    for (size_t i = 0; (b = body_at(i)) != NULL; i++) {
        if (strcmp(b->name, "window") != 0) {
            assert_int_equal(stop(b, 1), 0);
        }
    }
}

static int quick(void) {
    (void)snprintf(file, sizeof file, "/tmp/wh_explore_switches_%ld", (long)getpid());
    const struct CMUnitTest tests[] = {
#ifndef WH_TSAN /* the memory of the search would look like races of the lanes that it steers */
        cmocka_unit_test(test_all_schedules), cmocka_unit_test(test_planted),
#endif
        cmocka_unit_test(test_histories),     cmocka_unit_test(test_many),
        cmocka_unit_test(test_stop),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(file);
    return failed != 0;
}

/* --- words
 * ------------------------------------------------------------------------------------------------
 */

static int read_word(words *w, const char *word) {
    const char *value = strchr(word, '=');
    const struct {
        const char *key;
        const char **text;
        uint64_t *number;
    } keys[] = {
        {"policy", &w->policy, NULL},           {"file", &w->file, NULL},
        {"preemptions", NULL, &w->preemptions}, {"most", NULL, &w->most},
        {"seconds", NULL, &w->seconds},         {"seed", NULL, &w->seed},
    };
    if (value == NULL) {
        w->body = word;
        return body_named(word) != NULL;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t n = strlen(keys[i].key);
        if ((size_t)(value - word) == n && strncmp(word, keys[i].key, n) == 0) {
            if (keys[i].text != NULL) {
                *keys[i].text = value + 1;
                return 1;
            }
            char *end;
            *keys[i].number = strtoull(value + 1, &end, 10);
            return value[1] >= '0' && value[1] <= '9' && *end == '\0';
        }
    }
    return 0;
}

static int is_policy(const char *name) {
    int known = name == NULL || strcmp(name, "exhaustive") == 0;
    for (uint32_t p = 0; p < WH_SIM_POLICY_COUNT && name != NULL; p++) {
        known |= strcmp(name, policies[p]) == 0;
    }
    return known;
}

/* What a word says to do with a body. */
static int do_word(const words *w, const body *b) {
    if (strcmp(w->what, "exhaustive") == 0) {
        return search_body(w, b);
    }
    if (strcmp(w->what, "many") == 0) {
        return many(w, b);
    }
    if (strcmp(w->what, "run") == 0) {
        return run_one(w, b);
    }
    if (strcmp(w->what, "find") == 0) {
        return find(w, b);
    }
    return stop(b, STOP_SEEDS);
}

int main(int argc, char **argv) {
    static const char *const known[] = {"exhaustive", "many", "run", "find", "stop", "bodies"};
    words w = {NULL, NULL, NULL, NULL, 2, UINT64_MAX, 3600, 1};
    if (argc == 1) {
        return quick();
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        w.what = strcmp(argv[1], known[i]) == 0 ? known[i] : w.what;
    }
    int good = w.what != NULL;
    for (int i = 2; i < argc && good; i++) {
        good = read_word(&w, argv[i]);
    }
    if (!good || !is_policy(w.policy)) {
        fprintf(stderr, "usage: explore [exhaustive|many|run|find|stop|bodies] [BODY] "
                        "[policy=|seed=|preemptions=|most=|seconds=|file=]...\n"
                        "explore bodies: their names\n");
        return 2;
    }
    int failed = 0;
    const body *b = NULL;
    for (size_t i = 0; (b = body_at(i)) != NULL; i++) {
        if (strcmp(w.what, "bodies") == 0) {
            printf("%s\n", b->name);
        } else if (w.body == NULL || strcmp(w.body, b->name) == 0) {
            failed |= do_word(&w, b);
        }
    }
    return failed;
}
