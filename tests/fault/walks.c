/* walks.c: workloads that find the faults planted in the random walks, in page-queue and in
 * rw-malloc, and the faults. */
#include "fault/churn.h"

OTHER_CHURN(rw_churn, rw, pages, 1)
OTHER_CHURN(rw_bm_churn, rw_bm, pages, 1)
OTHER_CHURN(corw_churn, corw, pages, 1)
OTHER_CHURN(rwmalloc_churn, rwmalloc, units, 5)

OTHER_NEVER_NULL(rw_never_null, rw, pages)
OTHER_NEVER_NULL(rw_bm_never_null, rw_bm, pages)
OTHER_NEVER_NULL(corw_never_null, corw, pages)
OTHER_NEVER_NULL(crw_never_null, crw, pages)
OTHER_NEVER_NULL(page_queue_never_null, page_queue, queued)
OTHER_NEVER_NULL(rwmalloc_never_null, rwmalloc, units)

/* --- the suite -------------------------------------------------------------------------------- */

/* A short walk, then the sweep. */
#define HEAP(name, type, above)                                                              \
    .allocator = (name), .make = make_above, .handle_bytes = sizeof(type), .bytes = (above), \
    .options = {                                                                             \
        {"page_bytes", 64}, {"unit_bytes", 64}, {"exact_oom", 1}, {"oom_free_ppm", 900000}}
#define PAGES(name, above) HEAP(name, wh_random_walk_ref, above)
#define UNITS(name, above) HEAP(name, wh_rwmalloc_ref, above)
/* What the hints of 491 pages take, but for those of the least heap. */
#define HINTS ((WH_RANDOM_WALK_MAX_HINTS < 128 ? WH_RANDOM_WALK_MAX_HINTS : 128) * 4 - 16)

/* In rw and corw NULL may not know of a free whose store is on its way (random_walk.h). */
static const workload workloads[] = {
    {"rw-churn", rw_churn, NULL, 6, 3, 40, .least = 8, PAGES("rw", 8 * 68)},
    {"rw-bm-churn", rw_bm_churn, NULL, 6, 3, 40, .least = 8, PAGES("rw-bm", 12 * 64)},
    {"corw-churn", corw_churn, NULL, 4, 8, 30, .least = 8, PAGES("corw", 70 * 65)},
    {"rw-bm-never-null", rw_bm_never_null, rw_bm_never_null_end, 32, 2, 40,
     PAGES("rw-bm", 490 * 64 + 112)}, /* 491 pages */
    {"rw-never-null", rw_never_null, rw_never_null_end, 8, 1, 400, PAGES("rw", 42 * 64 + 160),
     .weak = WEAK_NEVER}, /* 43 pages */
    {"corw-never-null", corw_never_null, corw_never_null_end, 32, 2, 40,
     PAGES("corw", 490 * 64 + 112), .weak = WEAK_NEVER},
    {"crw-never-null", crw_never_null, crw_never_null_end, 32, 2, 400,
     PAGES("crw", 490 * 64 + 112 + HINTS)},
    {"page-queue-never-null", page_queue_never_null, page_queue_never_null_end, 32, 2, 40,
     HEAP("page-queue", wh_page_queue_ref, 490 * 64 + 511 * 4)},
    {"rwmalloc-churn", rwmalloc_churn, NULL, 5, 6, 40, .least = 2, UNITS("rw-malloc", 60 * 69)},
    {"rwmalloc-never-null", rwmalloc_never_null, rwmalloc_never_null_end, 32, 2, 40,
     UNITS("rw-malloc", 33440)},
    {.name = NULL},
};

static const fault faults[] = {
    {"random_walk_i1", "rw-bm-churn", EVERYWHERE},      /* a word's lock does not exclude */
    {"rw_x1", "rw-never-null", EVERYWHERE},             /* NULL after one sweep */
    {"random_walk_x1", "rw-bm-never-null", EVERYWHERE}, /* the same over words */
    {"random_walk_x1", "corw-never-null", EVERYWHERE},
    {"random_walk_x1", "crw-never-null", EVERYWHERE},
    {"rwmalloc_i1", "rwmalloc-churn", EVERYWHERE},          /* a conflict is not noticed */
    {"rwmalloc_x1", "rwmalloc-never-null", EVERYWHERE},     /* NULL after one sweep */
    {"page_queue_x1", "page-queue-never-null", EVERYWHERE}, /* NULL by the count alone */
    {"rw_p1_get", "rw-churn", UNDER_TSAN},
    {"rw_p1_free", "rw-churn", UNDER_TSAN},
    {"rw_bm_p1_get", "rw-bm-churn", UNDER_TSAN},
    {"use_p1_release", "rw-bm-churn", UNDER_TSAN},
    {"corw_p1", "corw-churn", UNDER_TSAN},
    {"use_p1_claim", "rwmalloc-churn", UNDER_TSAN},
    {"rwmalloc_p1_get", "rwmalloc-churn", UNDER_TSAN},
    {"rwmalloc_p1_lanes", "rwmalloc-churn", UNDER_TSAN},
    {"rwmalloc_p2", "rwmalloc-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_walks = {"walks", workloads, faults, 5000000};
