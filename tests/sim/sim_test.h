/* sim_test.h: what the tests of the simulated device share. Included once per program. */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "warpheap/simt.h"

#define UNUSED __attribute__((unused))
#define N_POLICIES ((uint32_t)WH_SIM_POLICY_COUNT)

static UNUSED const char *const policy_names[WH_SIM_POLICY_COUNT] = {
#define POLICY_NAME_(name, text) text,
    WH_SIM_POLICY_LIST(POLICY_NAME_)
#undef POLICY_NAME_
};

/* How many seeds a seeded test tries. */
static UNUSED uint64_t n_seeds(void) {
    const char *text = getenv("WH_TEST_SEEDS");
    const int n = text != NULL ? atoi(text) : 0;
    return n > 0 ? (uint64_t)n : WH_TEST_SEEDS_DEFAULT;
}

static UNUSED wh_device *open_with(const wh_sim_options *options) {
    wh_device *d = NULL;
    assert_int_equal(wh_device_open(&d, "sim", options), WH_OK);
    assert_non_null(d);
    return d;
}

static UNUSED wh_device *open_policy(wh_sim_policy policy, uint64_t seed) {
    wh_sim_options o;
    memset(&o, 0, sizeof o);
    o.policy = policy;
    o.seed = seed;
    return open_with(&o);
}

/* Zeroed device memory. */
static UNUSED void *take(wh_device *d, uint64_t bytes) {
    void *p = NULL;
    assert_int_equal(wh_device_alloc(d, &p, bytes), WH_OK);
    assert_int_equal(wh_device_set(d, p, 0, bytes), WH_OK);
    return p;
}

static UNUSED wh_launch grid(wh_device *d, uint32_t blocks, uint32_t threads) {
    return wh_grid(d, blocks, threads);
}

/* A small generator for the tests' own data. */
static UNUSED uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 31) * 0x7fb5d329728ea185u;
    z = (z ^ z >> 27) * 0x81dadef4bc2dd44du;
    return z ^ z >> 33;
}

#endif
