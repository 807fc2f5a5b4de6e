/* suite.c: see suite.h. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/dynasoar/dynasoar.h"
#include "warpheap/detail/alloc/gallatin/layout.h"
#include "warpheap/detail/alloc/halloc/halloc.h"
#include "warpheap/detail/alloc/ouroboros/ouroboros.h"
#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"
#include "warpheap/detail/alloc/scatteralloc/scatteralloc.h"
#include "warpheap/detail/alloc/tessera/layout.h"

/* --- which runs ---------------------------------------------------------------------- */

const char *const suite_policies[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
    WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
};

int suite_parse(suite_choice *c, int argc, char **argv) {
    memset(c, 0, sizeof *c);
    c->seed = c->shape = c->config = c->seeds = UINT64_MAX;
    c->reserved = c->checked = 0;
    const struct {
        const char *key;
        const char **text;
        uint64_t *number;
    } keys[] = {
        {"alloc", &c->alloc, NULL},       {"case", &c->name, NULL},
        {"target", &c->target, NULL},     {"policy", &c->policy, NULL},
        {"seed", NULL, &c->seed},         {"shape", NULL, &c->shape},
        {"config", NULL, &c->config},     {"seeds", NULL, &c->seeds},
        {"reserved", NULL, &c->reserved}, {"checked", NULL, &c->checked},
    };
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int known = 0;
        for (size_t k = 0; value != NULL && k < sizeof keys / sizeof *keys; k++) {
            if (strncmp(argv[i], keys[k].key, (size_t)(value - argv[i])) == 0 &&
                keys[k].key[value - argv[i]] == '\0') {
                known = 1;
                if (keys[k].text != NULL) {
                    *keys[k].text = value + 1;
                } else {
                    *keys[k].number = strtoull(value + 1, NULL, 10);
                }
            }
        }
        if (!known) {
            fprintf(
                stderr,
                "usage: %s "
                "[alloc=|case=|target=|policy=|seed=|shape=|config=|seeds=|reserved=|checked=]...\n"
                "without words: all runs\n",
                argv[0]);
            return 0;
        }
    }
    return 1;
}

int suite_wants(const char *chosen, const char *name) {
    return chosen == NULL || strcmp(chosen, name) == 0;
}

int suite_wants_number(uint64_t chosen, uint64_t n) {
    return chosen == UINT64_MAX || chosen == n;
}

/* The lists walk over what is in use, which the simulator does a step at a time; the four
 * share one text, as three of the random walks do. */
static int is_list(const wh_allocator_info *info) {
    return strncmp(info->source, "Vinkler", 7) == 0 && (info->caps & WH_CAP_FREE) != 0;
}

/* Those over a page table share most of their text (alloc/paged.h). */
static int is_paged(const wh_allocator_info *info) {
    return strcmp(info->family, "scatteralloc") == 0 || strcmp(info->family, "halloc") == 0 ||
           strcmp(info->family, "xmalloc") == 0 || strcmp(info->family, "dynasoar") == 0;
}

uint64_t suite_seeds(const suite_choice *c, const wh_allocator_info *info) {
    const char *text = getenv("WH_TEST_SEEDS");
    const int n = text != NULL ? atoi(text) : 0;
    if (n > 0) {
        return (uint64_t)n;
    }
    const int of_some = strncmp(info->source, "Pham", 4) == 0 || is_paged(info);
    const uint64_t of_others = of_some ? 5 : 1;
    const int is_last =
        strcmp(info->family, "dynasoar") == 0; /* scatteralloc has its shapes, too */
    const uint64_t share = is_list(info) || is_last ? 10 : of_others;
    const uint64_t own = (WH_TEST_SEEDS_DEFAULT + share - 1) / share;
    return c->seeds < own ? c->seeds : own;
}

int suite_thins(const suite_choice *c, const wh_allocator_info *info, uint64_t seed,
                uint32_t policy) {
    const int chosen =
        c->policy != NULL || c->seed != UINT64_MAX || getenv("WH_TEST_SEEDS") != NULL;
    return !chosen && is_list(info) && (seed + policy) % 2 != 0;
}

int suite_is_brief(void) {
    return WH_TEST_SEEDS_DEFAULT <= 2 && getenv("WH_TEST_SEEDS") == NULL;
}

uint64_t suite_first_seed(void) {
    const char *text = getenv("WH_TEST_FIRST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

wh_sim_options suite_sim_options(uint64_t seed, uint32_t policy) {
    static const uint32_t n_sms[] = {4, 1, 7, 32};
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.n_sms = n_sms[seed % 4];
    o.seed = seed;
    o.policy = (wh_sim_policy)policy;
    o.policy_arg = policy == WH_SIM_PCT ? 1 + (uint32_t)(seed % 3) : 0;
    o.weak = seed % 3 == 2 ? WH_SIM_WEAK_GPU : WH_SIM_WEAK_NONE;
    o.step_budget = 400 << 20; /* a livelock must not last until the test's time limit */
    return o;
}

uint64_t suite_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 31) * 0x7fb5d329728ea185u;
    z = (z ^ z >> 27) * 0x81dadef4bc2dd44du;
    return z ^ z >> 33;
}

uint64_t suite_random_size(uint64_t *state, uint64_t max) {
    const uint32_t bits = 1 + wh_log2_floor(max);
    const uint64_t range = (uint64_t)1 << suite_random(state) % bits;
    const uint64_t n = 1 + suite_random(state) % range;
    return n < max ? n : max;
}

/* --- heaps -------------------------------------------------------------------------------- */

/* Small enough that full heaps, last blocks and last slices are common. Gallatin: in the fifth,
 * blocks are segments. */
const uint64_t suite_config_bytes[SUITE_CONFIGS] = {64 << 10,  256 << 10, 1 << 20,  100 << 10,
                                                    640 << 10, 4 << 20,   96 << 10, 300000};

static const struct {
    const char *name;
    uint64_t values[SUITE_CONFIGS]; /* by configuration */
} suite_options_of[] = {
    {"gallatin.segment_bytes", {1024, 8192, 0, 4096, 65536, 0, 1024, 16384}},
    {"gallatin.min_slice_bytes", {0, 0, 0, 32, 0, 0, 64, 0}},
    {"gallatin.max_slice_bytes", {0, 0, 0, 64, 0, 0, 0, 0}},
    {"gallatin.slices_per_block", {4, 0, 0, 8, 4096, 0, 2, 16}},
    {"gallatin.block_buffers", {0, 4, 0, 0, 0, 0, 3, 1}},
    {"tessera.chunk_bytes", {1024, 2048, 0, 1024, 4096, 0, 1024, 4096}},
    {"tessera.shards", {0, 4, 0, 0, 0, 0, 3, 1}},
    {"ouroboros.chunk_bytes", {512, 2048, 0, 1024, 4096, 0, 512, 4096}},
    {"ouroboros.open_chunks", {0, 4, 0, 0, 0, 0, 3, 1}},
    {"ouroboros.queue_entries", {8, 0, 0, 64, 0, 0, 2, 0}},
    {"page_queue.page_bytes", {0, 0, 0, 0, 4096, 1024, 0, 0}},
    {"random_walk.page_bytes", {0, 0, 0, 0, 4096, 1024, 0, 0}},
    {"random_walk.exact_oom", {0, 1, 0, 0, 0, 0, 1, 0}},
    {"rwmalloc.unit_bytes", {0, 0, 0, 0, 1024, 64, 0, 0}},
    {"halloc.slab_bytes", {1024, 0, 0, 512, 32768, 0, 2048, 8192}},
    {"halloc.busy_percent", {0, 0, 0, 50, 100, 0, 0, 1}},
    {"xmalloc.superblock_bytes", {1024, 0, 0, 512, 16384, 0, 0, 2048}},
    {"xmalloc.buffer_entries", {0, 0, 0, 1, 64, 4, 0, 0}},
    {"dynasoar.block_bytes", {1024, 0, 0, 256, 4096, 0, 128, 1024}},
    {"dynasoar.types", {0, 1, 0, 3, 0, 63, 0, 0}},
    {"scatteralloc.page_bytes", {1024, 0, 0, 128, 4096, 0, 512, 1024}},
    {"scatteralloc.region_pages", {0, 0, 0, 4, 64, 8, 1, 0}},
    {"scatteralloc.superblock_pages", {16, 0, 16, 4, 64, 0, 2, 0}},
    {"fdgmalloc.superblock_bytes", {1024, 0, 0, 512, 65536, 0, 64, 2048}},
    {"fdgmalloc.warps", {0, 4, 0, 1, 0, 0, 3, 0}},
    {"kma.superblock_bytes", {4096, 8192, 0, 8192, 32768, 0, 4096, 0}},
    {"bulk.unit_bytes", {0, 0, 1024, 0, 0, 4096, 0, 0}},
    {"bulk.chunk_bins", {4, 1, 0, 32, 8, 2, 16, 0}},
};

void suite_options(wh_heap_options *o, wh_any_options *own, uint32_t config) {
    memset(own, 0, sizeof *own);
    o->options = NULL;
    for (size_t i = 0; i < sizeof suite_options_of / sizeof *suite_options_of; i++) {
        const char *name = strchr(suite_options_of[i].name, '.') + 1;
        const char *family = wh_allocator_find(o->allocator)->family;
        if (strncmp(suite_options_of[i].name, family, strlen(family)) == 0) {
            set_option(o, own, name, suite_options_of[i].values[config]);
        }
    }
}

#define ALIGNMENT ((uint64_t)1 << 17) /* no configuration has larger segments */

void suite_check(wh_heap_options *o, wh_any_options *own) {
    set_option(o, own, "checked", 1);
    /* Now and then freed blocks stay for a while, or not at all. */
    set_option(o, own, "quarantine_bytes", o->bytes % 3 == 0 ? 1 : o->bytes / 16 * (o->bytes % 3));
}

int suite_violations(wh_heap *heap, char *text, size_t bytes) {
    wh_record records[4];
    uint32_t n = 0;
    wh_status s = wh_heap_check_blocks(heap, 0, NULL);
    if (s == WH_UNSUPPORTED) {
        return 0;
    }
    s = s == WH_OK ? wh_heap_violations(heap, records, sizeof *records, 4, &n) : s;
    if (s == WH_OK && n == 0) {
        return 0;
    }
    (void)snprintf(text, bytes, "%s", wh_status_name(s));
    if (n != 0) {
        (void)wh_record_text(records, text, bytes);
    }
    return 1;
}

void *suite_memory(wh_device *device, uint64_t bytes, uint64_t random, void **raw) {
    *raw = NULL;
    if (wh_device_alloc(device, raw, bytes + 2 * ALIGNMENT) != WH_OK) {
        return NULL;
    }
    const uint64_t start = wh_round_up((uint64_t)(uintptr_t)*raw, ALIGNMENT);
    return (void *)(uintptr_t)(start + random % (ALIGNMENT / 256) * 256);
}

static int gallatin_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    wh_gallatin_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    if (wh_gallatin_plan(&h, &plan, o->memory, o->bytes, o->options,
                         wh_device_get_info(o->device)->n_sms) != WH_OK) {
        return 0;
    }
    const wh_gallatin_core g = h.core;
    l->segment = (uint64_t)1 << wh_gallatin_segment_log2_(g);
    l->slices = (uint64_t)1 << wh_gallatin_max_slice_log2_(g);
    l->pinned = wh_round_up(n, l->segment);
    if (n <= l->slices) {
        const uint32_t t = wh_pow2_class(n != 0 ? n : 1, wh_gallatin_min_slice_log2_(g));
        l->block = (uint64_t)1 << wh_gallatin_slice_log2_(g, t);
        l->unit = (uint64_t)1 << wh_gallatin_block_log2_(g, t);
    } else {
        const uint32_t t = wh_gallatin_block_class_(g, n);
        l->block = t == WH_GALLATIN_FREE ? l->pinned : (uint64_t)1 << wh_gallatin_block_log2_(g, t);
        l->unit = l->block;
    }
    return 1;
}

static int tessera_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    wh_tessera_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    if (wh_tessera_plan(&h, &plan, o->memory, o->bytes, o->options,
                        wh_device_get_info(o->device)->n_sms) != WH_OK) {
        return 0;
    }
    const uint32_t chunk_log2 = h.core.chunk_log2;
    const uint64_t chunk = (uint64_t)1 << chunk_log2;
    l->segment = l->slices = chunk;
    l->pinned = wh_round_up(n, chunk);
    l->block = l->unit = l->pinned;
    l->unknown = n > chunk;
    if (n != 0 && n <= chunk) { /* the worst slab is that of one chunk */
        const wh_tessera_class row = wh_tessera_make_class(wh_tessera_class_of((uint32_t)n),
                                                           chunk_log2, h.core.max_slab_log2);
        l->in_segment = chunk / row.slot_size;
        l->block = l->unit = (chunk + l->in_segment - 1) / l->in_segment;
        l->pinned = (uint64_t)row.chunks << chunk_log2;
        l->unknown = l->in_segment * row.chunks != row.slots;
    }
    return 1;
}

/* A page comes back when it is empty, for blocks of any size; more than a page is a run. */
static int paged_layout(const wh_paged *h, uint64_t n, suite_layout *l) {
    const uint32_t log2 = h->table.page_log2;
    l->segment = (uint64_t)1 << log2;
    l->slices = l->segment / 2;
    l->pinned = l->block = l->unit = wh_round_up(n, l->segment);
    l->regained = 1; /* runs may meet fragmentation: not known */
    const uint32_t kind = n != 0 ? wh_page_kind_for(log2, n) : WH_PAGE_RUN;
    if (kind != WH_PAGE_RUN) {
        l->in_segment = wh_page_capacity(log2, kind);
        l->block = (l->segment + l->in_segment - 1) / l->in_segment;
        l->unit = l->segment;
    }
    return n <= l->segment;
}

static int scatteralloc_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    wh_scatteralloc_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    return wh_scatteralloc_plan(&h, &plan, o->memory, o->bytes, o->options, 1) == WH_OK &&
           paged_layout(&h.paged, n, l);
}

static int dynasoar_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    wh_dynasoar_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    return wh_dynasoar_plan(&h, &plan, o->memory, o->bytes, o->options, 1) == WH_OK &&
           paged_layout(&h.paged, n, l);
}

static int halloc_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    wh_halloc_ref h;
    wh_plan plan;
    memset(&h, 0, sizeof h);
    return wh_halloc_plan(&h, &plan, o->memory, o->bytes, o->options, 1) == WH_OK &&
           paged_layout(&h.paged, n, l);
}

/* What X1 of ouroboros/oom.h promises: a class's own memory, in any lane's hands, but not a chunk
 * of another class that becomes idle, or is moved by another search, while this one looks: hence
 * `apart`. Virtual queues take chunks for their entries, and one that is empty keeps up to two
 * of them; one more may have been provisioned ahead, or as many as `ahead` says. Static ones take
 * none. */
static int ouroboros_layout(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    static const struct {
        const char *name;
        uint32_t variant;
    } variants[] = {
#define VARIANT_(ident, name, kind, holds) {name, (kind) | (holds)},
        WH_OURO_VARIANT_LIST(VARIANT_)
#undef VARIANT_
    };
    wh_ouro_ref h;
    wh_plan plan;
    wh_status s = WH_BAD_ARGUMENT;
    memset(&h, 0, sizeof h);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (strcmp(o->allocator, variants[i].name) == 0) {
            h.variant = variants[i].variant;
            s = wh_ouro_plan_(&h, NULL, &plan, o->memory, o->bytes, o->options);
        }
    }
    if (s != WH_OK) {
        return 0;
    }
    const uint64_t chunk = (uint64_t)1 << h.chunk_log2, large = chunk << h.large_log2;
    const int by_chunk = WH_OURO_BY_CHUNK(h.variant);
    const int virtual = WH_OURO_KIND(h.variant) != WH_VQUEUE_ARRAY;
    l->segment = l->slices = chunk;
    const uint32_t log2 = n != 0 ? wh_log2_ceil(n) : 0;
    l->block = l->unit = (uint64_t)1 << (log2 > h.min_log2 ? log2 : h.min_log2);
    l->pinned = l->block <= chunk ? chunk : large;
    l->regained = 1; /* runs may meet fragmentation: not known */
    l->apart = h.n_small;
    l->twice = !by_chunk;
    if (l->block > large) { /* a heap of this size has no such class */
        l->rest = 32 * l->block;
        l->unknown = 1;
    } else if (l->block > chunk) {
        l->rest = h.data_bytes % large;
    }
    if (virtual) {
        /* An entry of four bytes for each free page, or chunk. */
        l->pinned += by_chunk ? 4 : 4 * (chunk / l->block + 1);
        l->kept = (3 + (uint64_t)wh_ouro_queue_chunks_(h).ahead) * h.n_classes *
                  (l->block <= chunk ? chunk : large);
    }
    return 1;
}

int suite_layout_of(const wh_heap_options *o, uint64_t n, suite_layout *l) {
    memset(l, 0, sizeof *l);
    if (strncmp(o->allocator, "bump", 4) == 0) {
        l->block = l->unit = l->pinned = wh_round_up(n, 16);
        return 1;
    }
    if (strcmp(o->allocator, "page-queue") == 0) {
        const uint64_t page = ((const wh_page_queue_options *)(const void *)o->options)->page_bytes;
        l->block = l->unit = l->pinned = page != 0 ? page : WH_RANDOM_WALK_PAGE;
        return 1;
    }
    if (strcmp(o->allocator, "rw-malloc") == 0) { /* runs may meet fragmentation: not known */
        const uint64_t given = ((const wh_rwmalloc_options *)(const void *)o->options)->unit_bytes;
        const uint64_t unit = given != 0 ? given : WH_RWMALLOC_UNIT;
        l->block = l->unit = l->pinned = unit;
        l->packed = n < unit;
        return n <= unit;
    }
    if (strcmp(o->allocator, "halloc") == 0) {
        return halloc_layout(o, n, l);
    }
    if (strcmp(o->allocator, "dynasoar") == 0) {
        return dynasoar_layout(o, n, l);
    }
    if (strcmp(o->allocator, "scatteralloc") == 0) {
        return scatteralloc_layout(o, n, l);
    }
    if (strcmp(o->allocator, "gallatin") == 0) {
        return gallatin_layout(o, n, l);
    }
    if (strcmp(o->allocator, "tessera") == 0) {
        return tessera_layout(o, n, l);
    }
    return strncmp(o->allocator, "ouro-", 5) == 0 ? ouroboros_layout(o, n, l) : 0;
}
