/* switch_rate.c: measures what a lane switch costs under each policy. A tool, not a
 * test: it prints figures and judges nothing (docs/SIMULATOR.md quotes them).
 *
 *     switch_rate [million points per figure]
 */
#include <stdio.h>
#include <stdlib.h>

#include "host/device_internal.h"
#include "warpheap/simt.h"

typedef struct rate_args {
    uint32_t *words; /* one cache line per lane */
    uint32_t rounds;
    int shuffle;
} rate_args;

WH_KERNEL(rate, rate_args, a) {
    uint32_t *word = a.words + wh_thread_id() * 16;
    for (uint32_t i = 0; i < a.rounds; i++) {
        if (a.shuffle) {
            (void)wh_ballot(~0u, 1);
        } else {
            (void)wh_fetch_add_u32_relaxed(word, 1);
        }
    }
}

static void measure(wh_sim_policy policy, const char *name, uint32_t threads, uint32_t blocks,
                    int shuffle, double millions) {
    wh_sim_options o = {.seed = 1, .policy = policy, .n_sms = blocks, .blocks_per_sm = 1};
    wh_device *d = NULL;
    const uint64_t lanes = (uint64_t)threads * blocks;
    rate_args a = {NULL, (uint32_t)(millions * 1e6 / (double)lanes), shuffle};
    double us = 0, best = 0, points = 0;
    if (whi_device_open_sim(&d, &o) != WH_OK ||
        d->ops->alloc(d, (void **)&a.words, lanes * 64) != WH_OK) {
        printf("cannot open the device\n");
        exit(1);
    }
    const wh_launch launch = {d, blocks, threads, NULL};
    for (int i = 0; i < 6; i++) { /* the first one also creates the fibers */
        wh_device_counters before, after;
        (void)d->ops->get_counters(d, &before);
        (void)d->ops->timer_begin(d);
        if (rate(&launch, &a) != WH_OK) {
            printf("%s\n", d->error);
            exit(1);
        }
        (void)d->ops->timer_end(d, &us);
        (void)d->ops->get_counters(d, &after);
        const double per_us = (double)(after.switches - before.switches) / us;
        if (i > 0 && per_us > best) {
            best = per_us;
            points = (double)(after.steps - before.steps) / us;
        }
    }
    printf("%-12s %-7s %4u x %4u lanes: %7.2f M points/s, %7.2f M switches/s\n", name,
           shuffle ? "ballot" : "atomic", (unsigned)blocks, (unsigned)threads, points, best);
    d->ops->close(d);
}

int main(int argc, char **argv) {
    const double millions = argc > 1 ? atof(argv[1]) : 1;
    static const char *const names[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
        WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
    };
    static const uint32_t threads[] = {32, 256, 512, 1024};
    for (uint32_t p = 0; p < WH_SIM_POLICY_COUNT; p++) {
        for (uint32_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            measure((wh_sim_policy)p, names[p], threads[i], 1, 0, millions);
        }
        measure((wh_sim_policy)p, names[p], 1024, 8, 0, millions);
        measure((wh_sim_policy)p, names[p], 256, 1, 1, millions);
    }
    return 0;
}
