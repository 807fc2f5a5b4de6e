/* stress.c: random sizes from many lanes, freed by others, for every allocator of
 * alloc/list.h that reuses memory: on the simulated device with every policy, with one
 * and two workers, on the first GPU too where there is one. In half of the runs the heap
 * is so large that NULL would be an error, in the others so small that many calls fail.
 * At the end all is freed: the heap is sound, its statistics say 0, and it can be had as
 * one block.
 *
 *   stress [alloc=NAME] [target=sim|cuda] [policy=NAME] [seed=N] [shape=N] [config=N]
 * runs only what the words name; shape 0: one worker, 1: two. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"
#include "suite.h"
#include "warpheap/alloc/list.h"

/* --- tables of kernels ----------------------------------------------------------------- */

#define DECLARE_SIM(ident, family, name, title, source, caps, max_align, max_size) \
    extern const stress_kernels stress_kernels_##ident##_sim;
WH_ALLOC_LIST(DECLARE_SIM)
#if WH_HAVE_CUDA
#define DECLARE_CUDA(ident, family, name, title, source, caps, max_align, max_size) \
    extern const stress_kernels stress_kernels_##ident##_cuda;
WH_ALLOC_LIST(DECLARE_CUDA)
#define CUDA_TABLE(ident) &stress_kernels_##ident##_cuda
#else
#define CUDA_TABLE(ident) NULL
#endif
#define TABLES(ident, family, name, title, source, caps, max_align, max_size) \
    {((caps)&WH_CAP_SIM) != 0 ? &stress_kernels_##ident##_sim : NULL, CUDA_TABLE(ident)},

static const struct { const stress_kernels *sim, *cuda; } tables[] = {WH_ALLOC_LIST(TABLES)};

/* --- one run ------------------------------------------------------------------------------ */

typedef struct run {
    const wh_allocator_info *info;
    const stress_kernels *kernels;
    const char *target;
    uint64_t seed;
    uint32_t policy, workers, config;
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

static int launch(run *x, stress_launcher kernel, const stress_call *c, uint32_t blocks,
                  uint32_t threads, stress_result *result) {
    const wh_launch l = {x->device, blocks, threads, NULL};
    memset(result, 0, sizeof *result);
    return ok(x, wh_device_copy_in(x->device, c->result, result, sizeof *result), "copy") &&
           ok(x, kernel(&l, c), "kernel") && ok(x, wh_device_sync(x->device), "kernel") &&
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
        if (empty && can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM)) {
            (void)expect(x, s.largest_free == data, "the largest free block is not the heap",
                         s.largest_free);
        }
    }
    return x->text[0] == '\0';
}

/* One block of all the memory that the heap has for blocks. */
static int take_whole(run *x, stress_call *c) {
    wh_stats s;
    stress_result r;
    if (!can(x, WH_CAP_ANY_SIZE | WH_CAP_EXACT_OOM | WH_CAP_STATS)) {
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
           expect(x, r.served == 1 && r.nulls == 0, "the empty heap is not one block", r.served) &&
           launch(x, x->kernels->drain, &one, 1, 1, &r);
}

static int storm(run *x) {
    const int gpu = strcmp(x->target, "sim") != 0;
    uint64_t random = x->seed * 977 + x->policy * 31 + x->config;
    const uint32_t blocks = gpu ? 64 : 2 + (uint32_t)(suite_random(&random) % 3);
    const uint32_t threads = gpu ? 256 : 20 + (uint32_t)(suite_random(&random) % 50);
    const int ample = suite_random(&random) % 2 != 0 && can(x, WH_CAP_EXACT_OOM);
    wh_heap_options o;
    stress_call c;
    memset(&o, 0, sizeof o);
    memset(&c, 0, sizeof c);
    o.device = x->device;
    o.allocator = x->info->name;
    o.bytes = suite_configs[x->config].bytes * (gpu ? 16 : 1);
    o.tuning = suite_configs[x->config].tuning;
    c.caps = x->info->caps;
    c.seed = x->seed;
    c.steps = gpu ? 200 : 100;
    c.slots = 1 + (uint32_t)(suite_random(&random) % (blocks * threads));
    c.max_size = 8 + suite_random(&random) % 6000;
    c.max_size = c.max_size < x->info->max_size ? c.max_size : x->info->max_size;

    /* What is live at most: the mailbox, and a block in each lane's hand. */
    suite_layout layout;
    o.memory = suite_memory(x->device, o.bytes, 0, &x->raw);
    const int known = suite_layout_of(&o, c.max_size, &layout) && layout.segment != 0;
    (void)wh_device_free(x->device, x->raw);
    if (ample && known) {
        const uint64_t live = c.slots + (uint64_t)blocks * threads;
        c.plain = 1;
        c.max_size = c.max_size < layout.segment ? c.max_size : layout.segment;
        o.tuning.segment_bytes = layout.segment;
        o.bytes = (live + 2) * layout.segment;
        o.bytes += o.bytes / 4 + (64 << 10); /* metadata */
    }
    const int strict = ample && known;
    uint64_t least = 0;
    (void)ok(x, wh_heap_min_bytes(&o, &least), "min_bytes");
    o.bytes = o.bytes > least ? o.bytes : least;
    o.memory = suite_memory(x->device, o.bytes, suite_random(&random), &x->raw);
    void *mailbox = NULL, *result = NULL;
    if (!expect(x, o.memory != NULL, "no device memory", o.bytes) ||
        !ok(x, wh_heap_create(&x->heap, &o), "create") ||
        !ok(x, x->kernels->bind(x->heap, &c.heap), "bind") ||
        !ok(x, wh_device_alloc(x->device, &mailbox, c.slots * 8), "alloc") ||
        !ok(x, wh_device_set(x->device, mailbox, 0, c.slots * 8), "set") ||
        !ok(x, wh_device_alloc(x->device, &result, sizeof(stress_result)), "alloc")) {
        return 0;
    }
    c.mailbox = mailbox;
    c.result = result;
    stress_result r;
    for (uint32_t round = 0; round < 3; round++) {
        c.seed += 1000003;
        if (!launch(x, x->kernels->storm, &c, blocks, threads, &r) ||
            !expect(x, r.served > 0 || r.nulls > 0, "nothing was asked for", 0) ||
            !expect(x, !strict || r.nulls == 0, "NULL although memory was free", r.nulls) ||
            !inspect(x, 0)) {
            return 0;
        }
    }
    return launch(x, x->kernels->drain, &c, blocks, threads, &r) && inspect(x, 1) &&
           take_whole(x, &c) && inspect(x, 1);
}

static int run_one(run *x) {
    wh_sim_options so = suite_sim_options(x->seed, x->policy);
    so.workers = x->workers;
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

static void run_target(const suite_choice *c, run *x, uint64_t *runs, uint64_t *failures) {
    const int gpu = strcmp(x->target, "sim") != 0;
    const uint64_t n = suite_seeds();
    const uint64_t first = c->seed != UINT64_MAX ? c->seed : 0;
    for (uint64_t s = first; s < (c->seed != UINT64_MAX ? first + 1 : n); s++) {
        for (uint32_t p = 0; p < (gpu ? 1u : (uint32_t)WH_SIM_POLICY_COUNT); p++) {
            for (uint32_t w = 0; w < (gpu ? 1u : 2u); w++) {
                x->seed = s;
                x->policy = p;
                x->workers = w + 1;
                x->config =
                    (uint32_t)(c->config != UINT64_MAX ? c->config : s * 3 + p + w) % SUITE_CONFIGS;
                if (!suite_wants(c->policy, suite_policies[p]) ||
                    !suite_wants_number(c->shape, w) ||
                    (w == 1 && c->shape == UINT64_MAX && (s + p) % 5 != 0)) {
                    continue; /* two workers now and then: such runs do not repeat */
                }
                ++*runs;
                if (!run_one(x) && ++*failures <= 10) {
                    printf("FAILED: %s\n  repeat: stress alloc=%s target=%s seed=%" PRIu64
                           " policy=%s shape=%u config=%u\n",
                           x->text, x->info->name, x->target, s, suite_policies[p], w, x->config);
                    (void)fflush(stdout);
                }
            }
        }
    }
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
            x.kernels = t == 0 ? tables[a].sim : tables[a].cuda;
            if (!suite_wants(c.alloc, x.info->name) || !suite_wants(c.target, x.target) ||
                (t == 1 && wh_device_cuda_count() == 0)) {
                continue;
            }
            if (x.kernels == NULL || !can(&x, WH_CAP_DISJOINT | WH_CAP_FREE)) {
                printf("skipped: %s on %s (%s)\n", x.info->name, x.target,
                       x.kernels == NULL          ? "no 'sim'"
                       : can(&x, WH_CAP_DISJOINT) ? "no 'free'"
                                                  : "no 'disjoint'");
                skipped = 1;
                continue;
            }
            run_target(&c, &x, &runs, &failures);
        }
    }
    printf("%" PRIu64 " runs, %" PRIu64 " failed\n", runs, failures);
    return failures != 0 ? 1 : runs != 0 ? 0 : skipped ? 77 : 1; /* 77: ctest's "skipped" */
}
