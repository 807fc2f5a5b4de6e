/* ops_paper.c: the cases ops-join-paper and ops-group-paper: the experiments of Pham et al., TOPC
 * 2025, section 6: a join, and a group-by into lists of pages, in a heap of which 50 and 5 % are
 * free, from few rows to many (figures 17 and 18). docs/BENCHMARK.md has the protocol. */
#include <string.h>

#include "bench/cases/ops.h"
#include "bench/cases/scarce.h"

#define PAIR_BYTES 8u  /* key, row of the second table */
#define LEAST_ROWS 32u /* of a page: ops.h */

typedef struct job {
    uint64_t least_page;
    wh_status (*run)(whi_ops *o); /* on tables of o->rows */
} job;

/* The paper's form; and all others with the default allocator. */
static wh_status join(whi_ops *o) {
    static const whi_ops_tables tables = {"1-1", 1, 0};
    static const char *const others[] = {"pages", "paged"};
    WHI_BENCH_TRY(whi_ops_join_tables(o, &tables, 0));
    if (!whi_ops_wants_all(o->b)) {
        return whi_ops_join_row(o, "paper");
    }
    WHI_BENCH_TRY(whi_ops_join_row(o, "two-pass"));
    o->base = "ratio_two_pass";
    o->base_us = o->us;
    WHI_BENCH_TRY(whi_ops_join_row(o, "paper"));
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        WHI_BENCH_TRY(whi_ops_join_row(o, others[k]));
    }
    return WH_OK;
}

/* Keys alone, and at most as many of them as there are rows. */
static wh_status group(whi_ops *o) {
    const uint64_t most = o->b->defaults->ops_paper_keys;
    const uint64_t keys = o->rows < most ? o->rows : most;
    WHI_BENCH_TRY(whi_ops_group_table(o, WH_OPS_GAUSSIAN, keys, 0));
    return whi_ops_group_row(o, "paper");
}

/* All numbers of rows, in a heap that is scarce. */
static wh_status all_rows(whi_bench *b, const job *j, const whi_ops *like) {
    whi_bench_list rows = {b->options->threads, b->options->n_threads};
    if (rows.n == 0) {
        rows.v = b->defaults->ops_paper_rows;
        while (rows.v[rows.n] != 0) {
            rows.n++;
        }
    }
    for (size_t k = 0; k < rows.n && b->turn.left_out.size == 0; k++) {
        whi_ops o = *like;
        o.rows = rows.v[k];
        wh_status s = whi_ops_begin(b, &o);
        s = s == WH_OK ? j->run(&o) : s;
        whi_ops_end(&o);
        WHI_BENCH_TRY(s);
    }
    return WH_OK;
}

static wh_status begin_pages(whi_bench *b, whi_scarce *w, uint64_t page) {
    WHI_BENCH_TRY(whi_ops_open_heap(b, b->defaults->ops_paper_bytes, page));
    WHI_BENCH_TRY(whi_pages_begin_open(b, &w->pages));
    if (w->pages.kernels == NULL) { /* it does not walk */
        WHI_BENCH_TRY(whi_pages_begin_plain(b, &w->pages, b->heap_bytes));
        w->pages.page = page;
        w->pages.n = b->heap_bytes / page;
    }
    return WH_OK;
}

static wh_status all_shares(whi_bench *b, const job *j, whi_scarce *w) {
    static const double shares[] = {0.05, 0.5}; /* upwards: scarce.h */
    static const char *const names[] = {"free-5", "free-50"};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        whi_ops o;
        memset(&o, 0, sizeof o);
        o.input = names[k];
        o.free_share = shares[k];
        o.page_bytes = w->pages.page;
        const whi_bench_part part = {.op = "fill", .size = o.page_bytes, .input = o.input};
        WHI_BENCH_TRY(whi_bench_new_share(b));
        WHI_BENCH_TRY(whi_scarce_make(w, shares[k], 0, part));
        if (b->turn.left_out.size != 0) {
            return WH_OK; /* time was over before the heap was full */
        }
        b->turn.begun = 0; /* the first row of a share is always made */
        WHI_BENCH_TRY(all_rows(b, j, &o));
    }
    return WH_OK;
}

static wh_status run(whi_bench *b, const job *j) {
    const whi_bench_list sizes = whi_bench_sizes(b, b->defaults->ops_paper_pages);
    if (!whi_bench_can(b, WHI_OPS_CAPS)) {
        return WH_OK;
    }
    b->turn.limits = WHI_BENCH_LONG_CASE_LIMITS;
    for (size_t i = 0; i < sizes.n; i++) {
        whi_scarce w;
        memset(&w, 0, sizeof w);
        w.pages.b = b;
        if (sizes.v[i] >= j->least_page && whi_ops_serves(b, sizes.v[i])) {
            wh_status s = begin_pages(b, &w, sizes.v[i]);
            s = s == WH_OK ? all_shares(b, j, &w) : s;
            whi_scarce_end(&w);
            WHI_BENCH_TRY(s);
        }
    }
    return WH_OK;
}

wh_status whi_bench_case_ops_join_paper(whi_bench *b) {
    static const job j = {LEAST_ROWS * PAIR_BYTES, join};
    return run(b, &j);
}

wh_status whi_bench_case_ops_group_paper(whi_bench *b) {
    static const job j = {LEAST_ROWS * 4, group};
    return run(b, &j);
}
