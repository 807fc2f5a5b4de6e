/* paged.c: workloads that find the faults planted in core/page_table.h and in the allocators over
 * it, and the faults. */
#include "fault/churn.h"

OTHER_CHURN(scatter_churn, scatteralloc, scatter, 5)
OTHER_CHURN(halloc_churn, halloc, slabs, 6)
OTHER_CHURN(xmalloc_churn, xmalloc, blocks_of_warps, 6)
OTHER_CHURN(dynasoar_churn, dynasoar, objects, 5)
OTHER_NEVER_NULL(scatter_never_null, scatteralloc, scatter)
OTHER_NEVER_NULL(dynasoar_never_null, dynasoar, objects)

/* --- the suite -------------------------------------------------------------------------------- */

/* A page of 128 bytes takes 12 of the table. */
#define SCATTER(page, above)                                                                      \
    .allocator = "scatteralloc", .make = make_above, .handle_bytes = sizeof(wh_scatteralloc_ref), \
    .bytes = (above),                                                                             \
    .options = {{"page_bytes", (page)}, {"region_pages", 2}, {"superblock_pages", 8}}

#define HALLOC(above)                                                                 \
    .allocator = "halloc", .make = make_above, .handle_bytes = sizeof(wh_halloc_ref), \
    .bytes = (above), .options = {{"slab_bytes", 512}}

#define XMALLOC(above)                                                                  \
    .allocator = "xmalloc", .make = make_above, .handle_bytes = sizeof(wh_xmalloc_ref), \
    .bytes = (above), .options = {{"superblock_bytes", 512}, {"buffer_entries", 2}}

/* A block of 128 bytes takes 12 of the table; the sets and marks of 64 blocks 360. */
#define DYNASOAR(block, above)                                                            \
    .allocator = "dynasoar", .make = make_above, .handle_bytes = sizeof(wh_dynasoar_ref), \
    .bytes = (above), .options = {{"block_bytes", (block)}, {"types", 1}}

static const workload workloads[] = {
    {"scatter-churn", scatter_churn, NULL, 5, 6, 40, .least = 2, SCATTER(128, 24 * 140)},
    /* 491 chunks of which two are a page, and 491 runs of a page. */
    {"scatter-never-null", scatter_never_null, scatter_never_null_end, 32, 2, 40,
     SCATTER(128, 245 * 140 + 3 * 320)},
    {"scatter-runs-never-null", scatter_never_null, scatter_never_null_end, 32, 2, 40,
     SCATTER(64, 490 * 76 + 7 * 320)},
    {"halloc-churn", halloc_churn, NULL, 5, 6, 40, .least = 2, HALLOC(12 * 524)},
    {"xmalloc-churn", xmalloc_churn, NULL, 5, 6, 40, .least = 2, XMALLOC(12 * 564)},
    {"dynasoar-churn", dynasoar_churn, NULL, 5, 6, 40, .least = 2, DYNASOAR(128, 24 * 140)},
    {"dynasoar-never-null", dynasoar_never_null, dynasoar_never_null_end, 32, 2, 40,
     DYNASOAR(128, 245 * 140 + 3 * 360)},
    {.name = NULL},
};

static const fault faults[] = {
    {"page_table_i1", "scatter-churn", EVERYWHERE}, /* more chunks than a page has */
    {"page_table_i1_add", "halloc-churn", EVERYWHERE},
    {"page_table_i2", "scatter-churn", EVERYWHERE},           /* a page with live chunks is free */
    {"page_table_x1", "scatter-runs-never-null", EVERYWHERE}, /* NULL after one pass */
    {"xmalloc_i1", "xmalloc-churn", EVERYWHERE},        /* the first piece takes the others along */
    {"dynasoar_r1", "dynasoar-never-null", EVERYWHERE}, /* room that came back is not looked for */
    {"dynasoar_i1", "dynasoar-never-null", EVERYWHERE}, /* a block that is not full is not active */
    {"dynasoar_i2_open", "dynasoar-never-null", EVERYWHERE}, /* a walk would miss a block */
    {"dynasoar_i2_hold", "dynasoar-never-null", EVERYWHERE}, /* its next opener's word is lost */
    {"dynasoar_i2_empty", "dynasoar-churn", EVERYWHERE},     /* a walk would visit a free one */
    {"page_table_p1_take", "scatter-churn", UNDER_TSAN},
    {"page_table_p1_free", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_reserve", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_free", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_lanes", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_claim", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_run", "scatter-churn", UNDER_TSAN},
    {"page_table_p2_add", "halloc-churn", UNDER_TSAN},
    {"page_table_p2_subtract", "halloc-churn", UNDER_TSAN},
    {"xmalloc_p1", "xmalloc-churn", UNDER_TSAN},
    {"xmalloc_p1_lanes", "xmalloc-churn", UNDER_TSAN},
    {"paged_p2_lanes", "scatter-churn", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_paged = {"paged", workloads, faults, 5000000, 0, 0};
