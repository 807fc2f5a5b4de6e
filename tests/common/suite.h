/* suite.h: what the programs that run over many allocators, heaps, policies and seeds
 * share (tests/conform, tests/stress): which runs are wanted, the heaps they use, and
 * what is known of an allocator's classes. */
#ifndef WH_TEST_SUITE_H
#define WH_TEST_SUITE_H

#include "warpheap/heap.h"
#include "warpheap/records.h"
#include "set_option.h"

/* --- which runs ---------------------------------------------------------------------- */

/* Words key=value of the command line; NULL and UINT64_MAX: all. */
typedef struct suite_choice {
    const char *alloc, *name, *target, *policy;
    uint64_t seed, shape, config;
    uint64_t seeds;    /* at most so many */
    uint64_t reserved; /* 1: heaps in reserved address space, which shrink and grow (stress) */
    uint64_t checked;  /* 1: checked heaps, which must find nothing wrong */
} suite_choice;

/* 0, and a line on stderr, if a word is not understood. */
int suite_parse(suite_choice *c, int argc, char **argv);

/* Whether a name is among the chosen ones. */
int suite_wants(const char *chosen, const char *name);
int suite_wants_number(uint64_t chosen, uint64_t n);

/* How many seeds to try: WH_TEST_SEEDS, or what the build says, of which the lists get a tenth,
 * the random walks and those over a page table a fifth, and no more than the choice does. And the
 * first of them: WH_TEST_FIRST_SEED, or 0. */
uint64_t suite_seeds(const suite_choice *c, const wh_allocator_info *info);
uint64_t suite_first_seed(void);

/* Whether this is a checked build without WH_TEST_SEEDS: it is slow, and need not run all that a
 * release build runs. */
int suite_is_brief(void);

/* Whether a seed goes without a policy: the lists have every second one, unless the command or
 * WH_TEST_SEEDS says which. */
int suite_thins(const suite_choice *c, const wh_allocator_info *info, uint64_t seed,
                uint32_t policy);

extern const char *const suite_policies[WH_SIM_POLICY_COUNT];

/* Options of the simulated device for a run. */
wh_sim_options suite_sim_options(uint64_t seed, uint32_t policy);

uint64_t suite_random(uint64_t *state);

/* A size of any magnitude up to max. */
uint64_t suite_random_size(uint64_t *state, uint64_t max);

/* --- heaps -------------------------------------------------------------------------------- */

#define SUITE_CONFIGS 8u
extern const uint64_t suite_config_bytes[SUITE_CONFIGS]; /* of the heap */

/* Gives o the options of a configuration for the family of o->allocator. own: where they lie. */
void suite_options(wh_heap_options *o, wh_any_options *own, uint32_t config);

/* The same for a checked heap, of a family that has them. */
void suite_check(wh_heap_options *o, wh_any_options *own);
/* What such a heap has found, also by a look at all blocks. 0: nothing; else a line in text. Of
 * another heap nothing. */
int suite_violations(wh_heap *heap, char *text, size_t bytes);

/* Device memory for a heap, aligned in any way that is allowed, and in the same way for
 * each `random`. *raw is to be freed; NULL: there is none. */
void *suite_memory(wh_device *device, uint64_t bytes, uint64_t random, void **raw);

/* What is known of an allocator's classes, for requests of n bytes. */
typedef struct suite_layout {
    uint64_t block;      /* bytes that a block takes, what does not divide evenly included */
    uint64_t unit;       /* memory is reused in pieces of this size */
    uint64_t pinned;     /* a live block keeps at most this much from requests of other sizes */
    uint64_t slices;     /* largest request that is a part of a unit; 0: all are units */
    uint64_t segment;    /* 0: there are none */
    uint64_t in_segment; /* blocks of n bytes in one; 0: block divides the heap, or unknown */
    uint64_t rest;       /* bytes at an end of the heap that blocks of n bytes cannot have */
    uint64_t kept;       /* bytes that the allocator may keep for itself, or may not */
    int unknown;         /* how many blocks a heap holds depends on its history */
    int regained;        /* idle memory of other classes is as good as memory never used */
    uint64_t apart;      /* a NULL says nothing of what other classes had while it searched, so only
                            as many times the memory is enough for mixed sizes; 0: it does */
    int twice;           /* a block that is freed a second time is not noticed */
    int packed;          /* lanes that call together share a unit: `block` is the most that one
                            takes, and how many fit depends on who calls with whom */
} suite_layout;

/* 0 if nothing is known of the allocator of these options. memory must be set. */
int suite_layout_of(const wh_heap_options *options, uint64_t n, suite_layout *l);

#endif
