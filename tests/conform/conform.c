/* conform.c: the conformance suite: what every allocator of alloc/list.h must do, less
 * what its capability record leaves out; each left-out case is printed with the missing
 * bit. On the simulated device with every policy and WH_TEST_SEEDS seeds, on the first
 * GPU too where there is one, in every shape of call.
 *
 *   conform [alloc=NAME] [case=NAME] [target=sim|cuda] [seed=N] [policy=NAME] [shape=N]
 *           [config=N] [seeds=N] [checked=1]
 * runs only what the words name: a failure prints the words that repeat it. With checked=1 heaps
 * are checked ones, which must find nothing wrong. */
#include <inttypes.h>
#include <string.h>

#include "case.h"
#include "built_list.h"

/* --- tables of kernels ------------------------------------------------------------------------ */

WH_TABLES_TESTED(conform_kernels, conform_kernels_find)

#define LARGE_SHAPE 8u /* not with every seed: it takes long */

/* --- a run of a case -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(context *x);
    uint32_t needs; /* capability bits without which the case is skipped */
} cases[] = {
#define ROW_(function, name, needs) {name, function, needs},
    CONFORM_CASES(ROW_)
#undef ROW_
};
#define N_CASES ((uint32_t)(sizeof cases / sizeof *cases))

static void print_skipped(const wh_allocator_info *info) {
    static const struct {
        uint32_t bit;
        const char *name;
    } bits[] = {
#define BIT_(bit, name, text, meaning) {1u << bit, text},
        WH_CAP_LIST(BIT_)
#undef BIT_
    };
    for (uint32_t i = 0; i < N_CASES; i++) {
        if ((cases[i].needs & ~(info->caps | CASE_PLAIN)) == 0) {
            continue;
        }
        printf("skipped: %s: %s (no", info->name, cases[i].name);
        for (uint32_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            if ((cases[i].needs & bits[b].bit & ~info->caps) != 0) {
                printf(" '%s'", bits[b].name);
            }
        }
        printf(")\n");
    }
}

/* Runs one case on a device of its own; whether it passed. */
static int run_case(context *x, uint32_t number) {
    wh_sim_options so = suite_sim_options(x->seed, x->policy);
    so.weak = WH_SIM_WEAK_NONE; /* large grids: it takes too long */
    x->random = x->seed * 1000003 + x->policy * 5003 + x->shape * 103 + number * 31 + x->config;
    x->text[0] = '\0';
    if (setjmp(x->failed) == 0) {
        const shape *s = &shapes[x->shape];
        const int gpu = strcmp(x->target, "sim") != 0;
        OK(x, wh_device_open(&x->device, x->target, &so));
        x->launch =
            wh_grid(x->device, gpu && s->blocks > 1 ? s->blocks * 8 : s->blocks, s->threads);
        x->warps = x->launch.blocks * ((s->threads + 31) / 32);
        x->workers = x->launch.blocks * (s->threads / 32 * wh_popc32(s->lanes) +
                                         wh_popc32(s->lanes & ((1u << s->threads % 32) - 1)));
        memset(&x->call, 0, sizeof x->call);
        x->segment = 0;
        x->by_pool = 0;
        x->call.caps = x->info->caps;
        x->call.lanes = s->lanes;
        x->call.divergent = s->divergent;
        x->call.seed = x->seed;
        x->call.max_align = x->info->max_align;
        x->call.huge = SIZE_MAX;
        x->call.result = device_take(x, sizeof *x->call.result);
        make_heap(x, suite_config_bytes[x->config]);
        cases[number].run(x);
    }
    if (x->device != NULL) {
        free_items(x);
        drop_heap(x);
        (void)wh_stream_destroy(x->device, x->streams[0]);
        (void)wh_stream_destroy(x->peer, x->streams[1]);
        memset(x->streams, 0, sizeof x->streams);
        (void)wh_device_free(x->device, x->call.result);
    }
    wh_device_close(x->peer);
    wh_device_close(x->device);
    x->peer = x->device = NULL;
    return x->text[0] == '\0';
}

/* --- which runs ------------------------------------------------------------------------------- */

/* A part of the shapes goes with each seed and policy, the large one now and then. */
static int is_due(const context *x, uint32_t s) {
    const int brief = suite_is_brief();
    if (s == LARGE_SHAPE) {
        return brief ? x->seed == 0 && x->policy == WH_SIM_RANDOM : x->seed % 16 == x->policy;
    }
    return (x->seed + x->policy + s) % (brief ? 6 : 3) == 0;
}

/* All shapes and cases for one allocator, target, policy and seed. */
static void run_seed(const suite_choice *c, context *x, uint64_t *runs, uint64_t *failures) {
    for (uint32_t s = 0; s < N_SHAPES; s++) {
        if (c->shape == UINT64_MAX ? !is_due(x, s) : c->shape != s) {
            continue;
        }
        x->shape = s;
        for (uint32_t i = 0; i < N_CASES; i++) {
            if (!suite_wants(c->name, cases[i].name) ||
                (cases[i].needs & ~(x->info->caps | (x->checked ? 0 : CASE_PLAIN))) != 0) {
                continue;
            }
            x->config =
                (uint32_t)(c->config != UINT64_MAX ? c->config : x->seed + x->policy + s + i) %
                SUITE_CONFIGS;
            ++*runs;
            if (!run_case(x, i) && ++*failures <= 10) {
                printf(
                    "FAILED: %s\n  (%s)\n  repeat: conform alloc=%s case=%s target=%s seed=%" PRIu64
                    " policy=%s shape=%u config=%u\n",
                    x->text, shapes[s].name, x->info->name, cases[i].name, x->target, x->seed,
                    suite_policies[x->policy], s, x->config);
                (void)fflush(stdout);
            }
        }
    }
}

/* One allocator on one target. */
static void run_target(const suite_choice *c, context *x, uint64_t *runs, uint64_t *failures) {
    const int gpu = strcmp(x->target, "sim") != 0;
    const uint64_t before = *runs;
    uint64_t n = gpu ? 4 : suite_seeds(c, x->info);
    if (!gpu && !can(x, WH_CAP_FREE)) { /* what does not reuse memory has little to go wrong in */
        n = (n + 4) / 5;
    }
    const uint64_t first = c->seed != UINT64_MAX ? c->seed : suite_first_seed();
    for (uint64_t s = first; s < (c->seed != UINT64_MAX ? first + 1 : first + n); s++) {
        for (uint32_t p = 0; p < (gpu ? 1u : (uint32_t)WH_SIM_POLICY_COUNT); p++) {
            if (suite_wants(c->policy, suite_policies[p]) &&
                (gpu || !suite_thins(c, x->info, s, p))) {
                x->seed = s;
                x->policy = p;
                run_seed(c, x, runs, failures);
            }
        }
    }
    printf("%s on %s: %" PRIu64 " runs\n", x->info->name, x->target, *runs - before);
    (void)fflush(stdout);
}

int main(int argc, char **argv) {
    static context x;
    suite_choice c;
    uint64_t runs = 0, failures = 0;
    if (!suite_parse(&c, argc, argv)) {
        return 2;
    }
    for (uint32_t a = 0; wh_allocator_at(a) != NULL; a++) {
        x.info = wh_allocator_at(a);
        if (!suite_wants(c.alloc, x.info->name)) {
            continue;
        }
        x.checked = c.checked == 1;
        print_skipped(x.info);
        for (uint32_t t = 0; t < 2; t++) {
            x.target = t == 0 ? "sim" : "cuda";
            x.kernels = conform_kernels_find(x.info->name, t == 0 ? WH_TARGET_SIM : WH_TARGET_CUDA);
            if (!suite_wants(c.target, x.target) || (t == 1 && wh_device_cuda_count() == 0)) {
                continue;
            }
            if (x.kernels == NULL) {
                printf("skipped: %s on %s\n", x.info->name, x.target);
            } else {
                run_target(&c, &x, &runs, &failures);
            }
        }
    }
    printf("%" PRIu64 " runs, %" PRIu64 " failed\n", runs, failures);
    return failures != 0 || runs == 0;
}
