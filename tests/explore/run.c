/* run.c: one run of a body, and all runs with few preemptions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "explore/explore.h"
#include "warpheap/options.h"

double now(void) {
    struct timespec t;
    (void)timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the stage ----------------------------------------------------------------------------------
 */

/* The least heap of so many chunks, found by trying. */
static wh_status make_heap(stage *s) {
    wh_any_options own;
    wh_heap_options o;
    memset(&own, 0, sizeof own);
    memset(&o, 0, sizeof o);
    o.device = s->device;
    o.allocator = "tessera";
    wh_status status = wh_options_set(&own, "tessera.chunk_bytes", 1024);
    status = status == WH_OK ? wh_options_set(&own, "tessera.shards", 1) : status;
    o.options = &own.head;
    status = status == WH_OK ? wh_heap_min_bytes(&o, &o.bytes) : status;
    const uint64_t most = o.bytes + 64 * 1024;
    status = status == WH_OK ? wh_device_alloc(s->device, &s->heap_memory, most) : status;
    o.memory = s->heap_memory;
    while (status == WH_OK && o.bytes <= most) {
        status = wh_heap_create(&s->heap, &o);
        status = status == WH_OK ? wh_heap_handle(s->heap, &s->args.heap) : status;
        if (status != WH_OK || wh_tessera_core_of_(s->args.heap)->n_chunks >= s->b->chunks) {
            break;
        }
        wh_heap_destroy(s->heap);
        s->heap = NULL;
        o.bytes += 256;
    }
    s->heap_bytes = o.bytes;
    return status;
}

wh_status stage_open(stage *s, const body *b, const wh_sim_options *options) {
    memset(s, 0, sizeof *s);
    s->b = b;
    wh_sim_options o = *options;
    o.blocks_per_sm = MOST_LANES;
    o.step_budget = o.step_budget != 0 ? o.step_budget : 2000000;
    wh_status status = wh_device_open(&s->device, "sim", &o);
    void *m = NULL;
    status = status == WH_OK ? wh_device_alloc(s->device, &m, sizeof(memory)) : status;
    s->raw = m;
    s->args.m = m;
    s->args.steps = b->steps;
    status = status == WH_OK ? wh_device_set(s->device, m, 0, sizeof(memory)) : status;
    if (status == WH_OK && b->chunks != 0) {
        status = make_heap(s);
    }
    if (status == WH_OK && b->prepare != NULL) {
        b->prepare(&s->args);
    }
    s->first_memory = malloc(sizeof(memory));
    s->first_heap = malloc(s->heap_bytes + 1);
    if (status != WH_OK || s->first_memory == NULL || s->first_heap == NULL) {
        (void)snprintf(s->text, sizeof s->text, "%s: %s", b->name, wh_status_text(status));
        stage_close(s);
        return status != WH_OK ? status : WH_OUT_OF_MEMORY;
    }
    whi_sim_seed(s->device, o.seed);
    memcpy(s->first_memory, m, sizeof(memory));
    if (s->heap != NULL) {
        memcpy(s->first_heap, s->heap_memory, s->heap_bytes);
    }
    return WH_OK;
}

void stage_close(stage *s) {
    wh_heap_destroy(s->heap);
    if (s->device != NULL) {
        (void)wh_device_free(s->device, s->raw);
        (void)wh_device_free(s->device, s->heap_memory);
    }
    wh_device_close(s->device);
    free(s->first_memory);
    free(s->first_heap);
    s->heap = NULL;
    s->device = NULL;
    s->raw = s->heap_memory = NULL;
    s->first_memory = s->first_heap = NULL;
}

void stage_reset(stage *s) {
    memcpy(s->args.m, s->first_memory, sizeof(memory));
    if (s->heap != NULL) {
        memcpy(s->heap_memory, s->first_heap, s->heap_bytes);
    }
}

/* Whether nothing is lost: all chunks can be had, one after the other, by the host. */
static int is_whole(stage *s) {
    const wh_tessera_core *g = wh_tessera_core_of_(s->args.heap);
    void *blocks[16];
    uint32_t n = 0;
    while (n < g->n_chunks && n < 16) {
        blocks[n] = wh_malloc(s->args.heap, (uint64_t)1 << g->chunk_log2);
        if (blocks[n] == NULL) {
            break;
        }
        n++;
    }
    const int whole = n == g->n_chunks;
    if (!whole) {
        (void)snprintf(s->text, sizeof s->text, "%s: only %u of %u chunks can be had", s->b->name,
                       n, (unsigned)g->n_chunks);
    }
    while (n > 0) {
        wh_free(s->args.heap, blocks[--n]);
    }
    return whole;
}

/* In the end the heap is sound, nobody has a block, and nothing is lost. */
static int heap_is_wrong(stage *s) {
    wh_report report;
    wh_stats stats;
    wh_status status = wh_heap_check(s->heap, &report);
    if (status != WH_OK) {
        (void)snprintf(s->text, sizeof s->text, "%s: the heap is %s, I%u", s->b->name,
                       wh_status_name(status), (unsigned)report.first_tag);
        return 1;
    }
    status = wh_heap_get_stats(s->heap, &stats);
    if (status != WH_OK || stats.live_blocks != 0 || stats.bad_frees != 0) {
        (void)snprintf(s->text, sizeof s->text,
                       "%s: %s, %llu blocks are lost, %llu frees were refused", s->b->name,
                       wh_status_name(status), (unsigned long long)stats.live_blocks,
                       (unsigned long long)stats.bad_frees);
        return 1;
    }
    return !is_whole(s);
}

int stage_run(stage *s, uint32_t seed) {
    const wh_launch l = wh_grid(s->device, s->b->lanes, 1);
    s->args.seed = seed;
    whi_sim_steer(s->device, s->steering);
    const wh_status status = s->b->kernel(&l, &s->args);
    whi_sim_steer(s->device, NULL);
    whi_sim_end_schedule(s->device);
    if (status != WH_OK) {
        (void)snprintf(s->text, sizeof s->text, "%s: %s", s->b->name,
                       wh_device_error_text(s->device));
        return 1;
    }
    const int wrong = s->args.m->wrong != 0;
    const int checked = s->b->is_wrong != NULL && s->b->is_wrong(&s->args);
    if (wrong || checked) {
        const char *history =
            s->heap != NULL ? history_fault_texts[s->args.m->units % HISTORY_FAULT_COUNT] : "";
        (void)snprintf(s->text, sizeof s->text, "%s: %u things wrong in the kernel%s %s",
                       s->b->name, s->args.m->wrong, checked ? ", what it left is" : "", history);
        return 1;
    }
    return s->heap != NULL && heap_is_wrong(s);
}

/* --- all schedules
 * ---------------------------------------------------------------------------------- */

#define LONGEST_STINT 2000u /* then a lane that spins without back-off gives way */
#define HOST 64u

/* A choice of the schedule that runs. */
typedef struct choice {
    uint8_t can, chosen, tried; /* lanes, the lane, lanes */
    uint8_t is_free;            /* another lane costs no preemption: who ran has ended or waits */
    uint8_t cost;               /* preemptions before this choice */
} choice;

typedef struct tree {
    choice *choices;
    size_t n, room; /* a prefix that is followed, and what has come behind it */
    size_t at;      /* in this run */
    uint32_t preemptions, stint;
    int failed; /* the program did not repeat its prefix, or memory has run out */
} tree;

static uint32_t lowest(uint32_t lanes) {
    return (uint32_t)__builtin_ctz(lanes);
}

/* The next lane of `can` behind `ran`. */
static uint32_t next_lane(uint32_t can, uint32_t ran) {
    const uint32_t above = ran < 31 ? can & ~((2u << ran) - 1) : 0;
    return lowest(above != 0 ? above : can);
}

static int grow(tree *t) {
    if (t->n == t->room) {
        const size_t room = 2 * t->room + 1024;
        choice *more = realloc(t->choices, room * sizeof *more);
        t->failed |= more == NULL;
        if (more == NULL) {
            return 0;
        }
        t->choices = more;
        t->room = room;
    }
    return 1;
}

static uint32_t choose(void *state, uint64_t can64, uint32_t ran, bool leave) {
    tree *t = state;
    const uint32_t can = (uint32_t)can64;
    const int could_stay = ran != HOST && (can >> ran & 1) != 0;
    const int stays = could_stay && !leave && ++t->stint < LONGEST_STINT;
    const uint32_t by_default = stays ? ran : next_lane(can, ran);
    uint32_t chosen = by_default;
    if (t->at < t->n) {
        choice *c = &t->choices[t->at];
        t->failed |= c->can != can;
        chosen = c->can == can ? c->chosen : by_default;
    } else if (grow(t)) {
        const choice *before = t->at > 0 ? &t->choices[t->at - 1] : NULL;
        choice *c = &t->choices[t->n++];
        c->can = (uint8_t)can;
        c->chosen = (uint8_t)chosen;
        c->tried = (uint8_t)(1u << chosen);
        c->is_free = !could_stay;
        /* What was the default when it was made has been tried first. */
        c->cost = before != NULL ? before->cost : 0;
    }
    t->at++;
    t->stint = chosen == ran ? t->stint : 0;
    return chosen;
}

/* The next prefix, by depth first; 0: there is none. */
static int next_prefix(tree *t) {
    while (t->n > 0) {
        choice *c = &t->choices[t->n - 1];
        const uint32_t left = c->can & ~(uint32_t)c->tried;
        const uint32_t before = t->n > 1 ? t->choices[t->n - 2].cost : 0;
        const uint32_t cost = before + (c->is_free ? 0 : 1);
        if (left != 0 && cost <= t->preemptions) {
            c->chosen = (uint8_t)lowest(left);
            c->tried |= (uint8_t)(1u << c->chosen);
            c->cost = (uint8_t)cost;
            return 1;
        }
        t->n--;
    }
    return 0;
}

/* The schedule that was wrong once more, on a device that writes it down. */
static void write_switches(const stage *s, tree *t, uint32_t seed, const char *file) {
    const whi_steering steering = {choose, t};
    wh_sim_options o;
    stage again;
    memset(&o, 0, sizeof o);
    o.switches = file;
    if (stage_open(&again, s->b, &o) == WH_OK) {
        again.steering = &steering;
        t->at = t->stint = 0;
        (void)stage_run(&again, seed);
        stage_close(&again);
    }
}

searched search_all(stage *s, uint32_t seed, uint32_t preemptions, uint64_t most, double seconds,
                    const char *file) {
    searched r = {0, 0, 0, 0, 1};
    uint64_t before = 0;
    tree t;
    memset(&t, 0, sizeof t);
    const whi_steering steering = {choose, &t};
    s->steering = &steering;
    const double end = now() + seconds;
    for (t.preemptions = 0; t.preemptions <= preemptions && r.until == 0 && r.complete;
         t.preemptions++) {
        before += r.schedules;
        r.schedules = 0;
        r.preemptions = t.preemptions;
        t.n = 0;
        do {
            stage_reset(s);
            t.at = t.stint = 0;
            const int wrong = stage_run(s, seed);
            r.schedules++;
            r.most_choices = t.n > r.most_choices ? t.n : r.most_choices;
            if (t.failed || wrong) {
                r.until = before + r.schedules;
                if (t.failed) {
                    (void)snprintf(s->text, sizeof s->text,
                                   "%s: a prefix did not repeat, or there is no memory",
                                   s->b->name);
                } else if (file != NULL) {
                    write_switches(s, &t, seed, file);
                }
                break;
            }
            r.complete = before + r.schedules < most && (r.schedules % 256 != 0 || now() < end);
        } while (r.complete && next_prefix(&t));
    }
    s->steering = NULL;
    free(t.choices);
    return r;
}
