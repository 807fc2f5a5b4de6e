/* stress.c: random sizes from many lanes, freed by others, for every allocator of
 * alloc/list.h that reuses memory: on the simulated device with every policy, on the
 * first GPU too where there is one. In half of the runs the heap is so large that NULL
 * would be an error, in the others so small that many calls fail. At the end all is freed:
 * the heap is sound, its statistics say 0, and it can be had as one block.
 *
 *   stress [alloc=NAME] [target=sim|cuda] [policy=NAME] [seed=N] [shape=N] [config=N] [seeds=N]
 * runs only what the words name; for shapes see below. With reserved=1 heaps lie in reserved
 * address space, give back what they can after each kernel, and get as much again. With checked=1
 * heaps are checked, and must find nothing wrong.
 *
 * WH_TEST_SEEDS: how many seeds (from WH_TEST_FIRST_SEED on). WH_STRESS_SECONDS: no run of an
 * allocator on a target begins after this many seconds (0: no limit; the default on a GPU is 6,
 * where a run takes as long as the hardware likes). How many runs were left out is printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stress.h"
#include "suite.h"
#include "built_list.h"

/* --- tables of kernels ----------------------------------------------------------------- */

WH_TABLES_TESTED(stress_kernels, stress_kernels_find)

/* --- one run ------------------------------------------------------------------------------ */

/* X(NAME, "text") */
#define SHAPES(X)             \
    X(PLAIN, "one kernel")    \
    X(WORKERS, "two workers") \
    X(STREAMS, "two streams")

enum {
#define SHAPE_ENUM_(name, text) SHAPE_##name,
    SHAPES(SHAPE_ENUM_)
#undef SHAPE_ENUM_
        N_SHAPES
};

static const char *const shape_texts[N_SHAPES] = {
#define SHAPE_TEXT_(name, text) text,
    SHAPES(SHAPE_TEXT_)
#undef SHAPE_TEXT_
};

typedef struct run {
    const wh_allocator_info *info;
    const stress_kernels *kernels;
    const char *target;
    uint64_t seed;
    uint32_t policy, shape, config;
    uint32_t lanes;
    int strict;   /* NULL is an error */
    int reserved; /* the heap lies in reserved address space */
    int checked;  /* the heap is a checked one */
    wh_device *device;
    wh_heap *heap;
    void *raw; /* the heap's memory lies in it */
    char text[600];
} run;

/* Notes the first thing that went wrong; whether nothing has yet. */
static int expect(run *x, int good, const char *what, uint64_t value) {
    if (!good && x->text[0] == '\0') {
        (void)snprintf(x->text, sizeof x->text, "%s (%" PRIu64 ")", what, value);
    }
    return x->text[0] == '\0';
}

static int ok(run *x, wh_status s, const char *what) {
    if (s != WH_OK && x->text[0] == '\0') {
        (void)snprintf(x->text, sizeof x->text, "%s: %s (%s)", what, wh_status_name(s),
                       s == WH_DEVICE_ERROR ? wh_device_error_text(x->device) : wh_status_text(s));
    }
    return x->text[0] == '\0';
}

static int can(const run *x, uint32_t caps) {
    return (x->info->caps & caps) == caps;
}

static double now(void) {
    struct timespec t;
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Starts the kernel: as it is, or one half of its blocks on each of two streams. */
static int start(run *x, stress_launcher kernel, const stress_call *c, uint32_t blocks,
                 uint32_t threads) {
    const wh_launch l = {x->device, blocks, threads, NULL};
    if (x->shape != SHAPE_STREAMS || blocks < 2) {
        return ok(x, kernel(&l, c), "kernel");
    }
    void *streams[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2 && ok(x, wh_stream_create(x->device, &streams[i]), "stream"); i++) {
        const wh_launch half = {x->device, i == 0 ? blocks / 2 : blocks - blocks / 2, threads,
                                streams[i]};
        stress_call own = *c;
        own.seed += i * 7919u;
        (void)ok(x, kernel(&half, &own), "kernel");
    }
    (void)ok(x, wh_device_sync(x->device), "kernel");
    for (uint32_t i = 0; i < 2; i++) {
        (void)ok(x, wh_stream_destroy(x->device, streams[i]), "stream");
    }
    return x->text[0] == '\0';
}

static int launch(run *x, stress_launcher kernel, const stress_call *c, uint32_t blocks,
                  uint32_t threads, stress_result *result) {
    memset(result, 0, sizeof *result);
    return ok(x, wh_device_copy_in(x->device, c->result, result, sizeof *result), "copy") &&
           start(x, kernel, c, blocks, threads) && ok(x, wh_device_sync(x->device), "kernel") &&
           ok(x, wh_device_copy_out(x->device, result, c->result, sizeof *result), "copy") &&
           expect(x, result->bad == 0, "bad blocks", result->bad);
}

static int inspect(run *x, int empty) {
    wh_report r;
    wh_stats s;
    if (can(x, WH_CAP_CHECK)) {
        const wh_status status = wh_heap_check(x->heap, &r);
        (void)expect(x, status == WH_OK, "broken invariant I<n>", r.first_tag);
    }
    if (can(x, WH_CAP_STATS) && ok(x, wh_heap_get_stats(x->heap, &s), "statistics")) {
        (void)expect(x, s.bad_frees == 0, "rejected frees", s.bad_frees);
        (void)expect(x, !empty || s.used_bytes == 0, "bytes in use in an empty heap", s.used_bytes);
        (void)expect(x, !empty || s.live_blocks == 0, "blocks in an empty heap", s.live_blocks);
        const uint64_t data = s.heap_bytes - s.metadata_bytes;
        if (empty && !x->checked && can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM)) {
            (void)expect(x, s.largest_free == data, "the largest free block is not the heap",
                         s.largest_free);
        }
    }
    char text[400];
    (void)expect(x, !suite_violations(x->heap, text, sizeof text), text, 0);
    return x->text[0] == '\0';
}

/* One block of all the memory that the heap has for blocks. */
static int take_whole(run *x, stress_call *c) {
    wh_stats s;
    stress_result r;
    if (x->checked || !can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS)) {
        return 1;
    }
    if (!ok(x, wh_heap_get_stats(x->heap, &s), "statistics")) {
        return 0;
    }
    stress_call one = *c;
    one.slots = 1;
    one.plain = 1;
    one.max_size = s.heap_bytes - s.metadata_bytes;
    return launch(x, x->kernels->whole, &one, 1, 1, &r) &&
           expect(x, r.served == 1 && r.nulls == 0, "the empty heap is not one block", r.served);
}

/* How much a run does. On a GPU a full heap answers only when all lanes that change it
 * have paused, so few lanes meet there; a heap with room is met by many. */
typedef struct sizes {
    uint32_t blocks, threads, steps, rounds;
} sizes;

static sizes choose_sizes(int gpu, int ample, uint64_t *random) {
    sizes z;
    z.blocks = gpu ? 0 : 2 + (uint32_t)(suite_random(random) % 3);
    const uint32_t any = 20 + (uint32_t)(suite_random(random) % 50);
    const uint32_t full = any < 45 ? 32 : 64;
    z.threads = any % 2 == 0 ? any : full; /* warps, for half of the runs */
    z.steps = 100;
    z.rounds = 3;
    if (gpu) {
        z.blocks = ample ? 64 : 12;
        z.threads = ample ? 256 : 96;
        z.steps = ample ? 60 : 40;
        z.rounds = 2;
    }
    return z;
}

#define MOST_HEAP ((uint64_t)1 << 30)

/* What a run does, and in which heap. */
typedef struct plan {
    sizes z;
    wh_heap_options o;
    wh_any_options own; /* where o.options lies */
    stress_call c;
} plan;

/* What is live at most: the mailbox, and a block in each lane's hand; each of them may keep a
 * segment from others, in some allocators one of each class. */
static void give_room(run *x, plan *p, const suite_layout *layout, uint64_t keeps) {
    const uint64_t live = p->c.slots + (uint64_t)x->lanes;
    p->c.plain = 1;
    p->c.max_size = p->c.max_size < layout->segment ? p->c.max_size : layout->segment;
    set_option(&p->o, &p->own, "segment_bytes", layout->segment);
    p->o.bytes = (live + 2) * keeps;
    p->o.bytes += p->o.bytes / 4 + (64 << 10); /* metadata */
}

static void make_plan(run *x, plan *p, uint64_t *random) {
    const int gpu = strcmp(x->target, "sim") != 0;
    uint64_t lot = *random;
    const int ample = (suite_random(&lot) >> 20) % 2 != 0 && can(x, WH_CAP_EXACT_OOM);
    memset(p, 0, sizeof *p);
    p->z = choose_sizes(gpu, ample, random);
    p->o.device = x->device;
    p->o.allocator = x->info->name;
    p->o.bytes = suite_config_bytes[x->config] * (gpu ? 4 : 1);
    suite_options(&p->o, &p->own, x->config);
    p->c.caps = x->info->caps;
    p->c.seed = x->seed;
    p->c.steps = p->z.steps;
    p->c.max_size = 8 + suite_random(random) % 6000;
    p->c.max_size = p->c.max_size < x->info->max_size ? p->c.max_size : x->info->max_size;

    suite_layout layout;
    p->o.memory = suite_memory(x->device, p->o.bytes, 0, &x->raw);
    const int known = suite_layout_of(&p->o, p->c.max_size, &layout) && layout.segment != 0;
    const uint64_t keeps = layout.segment * (layout.apart != 0 ? layout.apart : 1);
    (void)wh_device_free(x->device, x->raw);
    x->strict = ample && known;
    while (x->strict && p->z.blocks > 2 &&
           2 * (uint64_t)p->z.blocks * p->z.threads * keeps > MOST_HEAP) {
        p->z.blocks /= 2;
    }
    x->lanes = p->z.blocks * p->z.threads;
    p->c.slots = 1 + (uint32_t)(suite_random(random) % x->lanes);
    if (x->strict) {
        give_room(x, p, &layout, keeps);
    }
}

static int make_heap(run *x, plan *p, uint64_t random) {
    uint64_t least = 0;
    void *mailbox = NULL, *result = NULL;
    const uint64_t bytes = p->c.slots * 8;
    const uint64_t more = strcmp(x->target, "sim") != 0 ? 64 << 20 : 1 << 20;
    if (x->checked) { /* a block takes up to six times as much */
        p->o.bytes *= x->strict ? 8 : 2;
        suite_check(&p->o, &p->own);
    }
    p->o.reserve_bytes = x->reserved ? 4 * p->o.bytes + more : 0;
    (void)ok(x, wh_heap_min_bytes(&p->o, &least), "min_bytes");
    if (x->reserved) { /* slabs are up to four times as large as in a heap of p->o.bytes */
        p->o.bytes = least + (x->strict ? 3 : 1) * p->o.bytes;
        p->o.memory = NULL;
    } else {
        p->o.bytes = p->o.bytes > least ? p->o.bytes : least;
        p->o.memory = suite_memory(x->device, p->o.bytes, random, &x->raw);
    }
    const int made = expect(x, x->reserved || p->o.memory != NULL, "no memory", p->o.bytes) &&
                     ok(x, wh_heap_create(&x->heap, &p->o), "create") &&
                     ok(x, x->kernels->bind(x->heap, &p->c.heap), "bind") &&
                     ok(x, wh_device_alloc(x->device, &mailbox, bytes), "alloc") &&
                     ok(x, wh_device_set(x->device, mailbox, 0, bytes), "set") &&
                     ok(x, wh_device_alloc(x->device, &result, sizeof(stress_result)), "alloc");
    p->c.mailbox = mailbox;
    p->c.result = result;
    return made;
}

static int shrink_and_grow(run *x) {
    uint64_t given = 0;
    return !x->reserved || (ok(x, wh_heap_trim(x->heap, 0, &given), "trim") && inspect(x, 0) &&
                            ok(x, wh_heap_extend(x->heap, given), "extend") && inspect(x, 0));
}

/* What waits in queues of one size goes back, for half of the runs. */
static int compact(run *x) {
    wh_compaction done = {0, 0, 0, 0};
    return !can(x, WH_CAP_COMPACT) || x->seed % 2 == 0 ||
           (ok(x, wh_heap_compact(x->heap, &done), "compact") &&
            expect(x, done.removed <= done.queued, "more was removed than there was",
                   done.removed) &&
            inspect(x, 0));
}

static int storm(run *x) {
    uint64_t random = x->seed * 977 + x->policy * 31 + x->config;
    plan p;
    stress_result r;
    make_plan(x, &p, &random);
    if (!make_heap(x, &p, suite_random(&random))) {
        return 0;
    }
    for (uint32_t round = 0; round < p.z.rounds; round++) {
        p.c.seed += 1000003;
        if (!launch(x, x->kernels->storm, &p.c, p.z.blocks, p.z.threads, &r) ||
            !expect(x, r.served > 0 || r.nulls > 0, "nothing was asked for", 0) ||
            !expect(x, !x->strict || r.nulls == 0, "NULL although memory was free", r.nulls) ||
            !inspect(x, 0) || !shrink_and_grow(x) || !compact(x)) {
            return 0;
        }
    }
    return launch(x, x->kernels->drain, &p.c, p.z.blocks, p.z.threads, &r) && inspect(x, 1) &&
           take_whole(x, &p.c) && inspect(x, 1);
}

static int run_one(run *x) {
    wh_sim_options so = suite_sim_options(x->seed, x->policy);
    so.workers = x->shape == SHAPE_WORKERS ? 2 : 1;
    so.weak = so.workers > 1 ? WH_SIM_WEAK_NONE : so.weak;
    x->text[0] = '\0';
    if (ok(x, wh_device_open(&x->device, x->target, &so), "device")) {
        (void)storm(x);
        wh_heap_destroy(x->heap);
        (void)wh_device_free(x->device, x->raw);
        x->heap = NULL;
    }
    wh_device_close(x->device);
    x->device = NULL;
    return x->text[0] == '\0';
}

/* --- all runs -------------------------------------------------------------------------------- */

/* Of one allocator on one target. */
typedef struct progress {
    uint64_t runs, failures, left_out;
    double begin, limit, told; /* limit 0: none */
    double longest;
    char longest_text[200];
} progress;

static double time_limit(int gpu) {
    const char *text = getenv("WH_STRESS_SECONDS");
    if (text != NULL) {
        return strtod(text, NULL);
    }
    return gpu ? 6.0 : 0.0;
}

static void describe(const run *x, char *text, size_t bytes) {
    (void)snprintf(
        text, bytes, "stress alloc=%s target=%s seed=%" PRIu64 " policy=%s shape=%u config=%u",
        x->info->name, x->target, x->seed, suite_policies[x->policy], x->shape, x->config);
}

static void run_timed(run *x, progress *p) {
    const int gpu = strcmp(x->target, "sim") != 0;
    const double before = now();
    if (p->limit > 0 && before - p->begin > p->limit) {
        p->left_out++;
        return;
    }
    const int good = run_one(x);
    const double after = now();
    p->runs++;
    if (!good) {
        char text[200];
        describe(x, text, sizeof text);
        if (++p->failures <= 10) {
            printf("FAILED: %s\n  repeat: %s\n", x->text, text);
        }
    }
    if (after - before > p->longest) {
        p->longest = after - before;
        describe(x, p->longest_text, sizeof p->longest_text);
    }
    if (gpu) {
        printf("  seed %" PRIu64 " config %u, %s, %u lanes, heap %s: %.0f ms\n", x->seed, x->config,
               shape_texts[x->shape], x->lanes, x->strict ? "ample" : "tight",
               (after - before) * 1e3);
    } else if (after - p->told > 5) {
        p->told = after;
        printf("  seed %" PRIu64 ": %" PRIu64 " runs in %.0f s\n", x->seed, p->runs,
               after - p->begin);
    }
    (void)fflush(stdout);
}

/* Whether a shape goes with this seed and policy, if none was asked for. */
static int in_plan(const run *x, int gpu) {
    if (gpu) {
        return x->shape != SHAPE_WORKERS;
    }
    /* Two workers now and then: such runs do not repeat. */
    return x->shape == SHAPE_PLAIN ||
           (x->seed + x->policy) % 5 == (x->shape == SHAPE_WORKERS ? 0 : 2);
}

static void run_target(const suite_choice *c, run *x, progress *p) {
    const int gpu = strcmp(x->target, "sim") != 0;
    const uint64_t first = c->seed != UINT64_MAX ? c->seed : suite_first_seed();
    const uint64_t end = first + (c->seed != UINT64_MAX ? 1 : suite_seeds(c, x->info));
    memset(p, 0, sizeof *p);
    p->begin = p->told = now();
    p->limit = time_limit(gpu);
    printf("%s on %s\n", x->info->name, x->target);
    (void)fflush(stdout);
    for (x->seed = first; x->seed < end; x->seed++) {
        for (x->policy = 0; x->policy < (gpu ? 1u : (uint32_t)WH_SIM_POLICY_COUNT); x->policy++) {
            for (x->shape = 0; x->shape < N_SHAPES; x->shape++) {
                x->config =
                    (uint32_t)(c->config != UINT64_MAX ? c->config
                                                       : x->seed * 3 + x->policy + x->shape) %
                    SUITE_CONFIGS;
                if (suite_wants(c->policy, suite_policies[x->policy]) &&
                    (gpu || !suite_thins(c, x->info, x->seed, x->policy)) &&
                    (c->shape != UINT64_MAX ? c->shape == x->shape : in_plan(x, gpu))) {
                    run_timed(x, p);
                }
            }
        }
    }
    printf("%s on %s: %" PRIu64 " runs, %" PRIu64 " failed, %" PRIu64
           " left out for time, %.1f s; longest %.2f s: %s\n",
           x->info->name, x->target, p->runs, p->failures, p->left_out, now() - p->begin,
           p->longest, p->longest_text);
}

int main(int argc, char **argv) {
    static run x;
    suite_choice c;
    uint64_t runs = 0, failures = 0;
    int skipped = 0;
    if (!suite_parse(&c, argc, argv)) {
        return 2;
    }
    for (uint32_t a = 0; wh_allocator_at(a) != NULL; a++) {
        x.info = wh_allocator_at(a);
        for (uint32_t t = 0; t < 2; t++) {
            x.target = t == 0 ? "sim" : "cuda";
            x.kernels = stress_kernels_find(x.info->name, t == 0 ? WH_TARGET_SIM : WH_TARGET_CUDA);
            if (!suite_wants(c.alloc, x.info->name) || !suite_wants(c.target, x.target) ||
                (t == 1 && wh_device_cuda_count() == 0)) {
                continue;
            }
            x.reserved = c.reserved == 1;
            x.checked = c.checked == 1;
            if (x.kernels == NULL || !can(&x, WH_CAP_DISJOINT | WH_CAP_FREE) ||
                ((x.reserved || x.checked) && !can(&x, WH_CAP_RESERVE))) {
                const char *lacks = can(&x, WH_CAP_DISJOINT) ? "free" : "disjoint";
                lacks = can(&x, WH_CAP_FREE) && x.reserved ? "reserve" : lacks;
                printf("skipped: %s on %s (no '%s')\n", x.info->name, x.target,
                       x.kernels == NULL ? "sim" : lacks);
                skipped = 1;
                continue;
            }
            progress p;
            run_target(&c, &x, &p);
            runs += p.runs;
            failures += p.failures;
        }
    }
    printf("%" PRIu64 " runs, %" PRIu64 " failed\n", runs, failures);
    if (failures == 0 && runs == 0 && skipped) {
        return 77; /* ctest's "skipped" */
    }
    return failures != 0 || runs == 0;
}
