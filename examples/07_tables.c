/* 07_tables.c: sales by the priority of orders. The lines of orders are joined with the orders, and
 * what comes out is grouped by priority. The heap is too small for the result of the join: rows
 * come in batches, and each batch is grouped before the join goes on.
 *
 *     07_tables [TARGET [ORDERS [FILE]]]
 *
 * TARGET: cuda, sim, or auto: a GPU if there is one. ORDERS: rows of the table of orders; four
 * times as many lines come with it, by a generator. FILE: the result is written there as CSV.
 * Exit status 0: the result is that of a sum on the host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpheap/ops.h>

#define PRIORITIES 5u
static const char *const priority_names[PRIORITIES] = {"urgent", "high", "medium", "low", "none"};

/* One row for each priority. Prices are in cents. Counts and sums of batches can be added up;
 * averages cannot, so there is none here. */
typedef struct totals {
    uint64_t lines[PRIORITIES];
    int64_t sum[PRIORITIES], least[PRIORITIES], most[PRIORITIES];
} totals;

/* Two tables on the host. One line in eight is of an order that the table no longer has. */
typedef struct tables {
    uint32_t *order_number, *order_priority;
    uint32_t *line_order;
    int64_t *line_price;
    uint32_t n_orders, n_lines;
    totals right; /* what must come out */
} tables;

/* A group-by, and device memory for its table and its result. */
typedef struct grouping {
    wh_device *device;
    wh_group *group;
    uint32_t *priority;
    int64_t *price;
    totals *found;
    uint32_t *found_priority; /* of the rows of found, which are in any order */
} grouping;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_last_error_text());
        fail(wh_status_text(status));
    }
}

/* --- the tables --------------------------------------------------------------------------------
 */

static void clear(totals *t) {
    memset(t, 0, sizeof *t);
    for (uint32_t p = 0; p < PRIORITIES; p++) {
        t->least[p] = INT64_MAX;
        t->most[p] = INT64_MIN;
    }
}

/* Adds row i of `more` to row p. */
static void add(totals *t, uint32_t p, const totals *more, uint32_t i) {
    t->lines[p] += more->lines[i];
    t->sum[p] += more->sum[i];
    t->least[p] = more->least[i] < t->least[p] ? more->least[i] : t->least[p];
    t->most[p] = more->most[i] > t->most[p] ? more->most[i] : t->most[p];
}

static void *column(uint64_t rows, uint64_t bytes) {
    void *p = malloc(rows * bytes);
    if (p == NULL) {
        fail("no memory");
    }
    return p;
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* An order has one to seven lines. The first orders are gone, their lines are not. */
static void make_tables(tables *t, uint32_t n_orders) {
    const uint32_t gone = n_orders / 7, all = n_orders + gone;
    uint64_t random = 1;
    t->n_orders = n_orders;
    t->n_lines = 0;
    t->order_number = (uint32_t *)column(n_orders, 4);
    t->order_priority = (uint32_t *)column(n_orders, 4);
    t->line_order = (uint32_t *)column(7 * (uint64_t)all, 4);
    t->line_price = (int64_t *)column(7 * (uint64_t)all, 8);
    clear(&t->right);
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t number = i / 8 * 32 + i % 8; /* as TPC-H does: 8 of 32 are in use */
        const uint32_t priority = next_random(&random) % PRIORITIES;
        if (i >= gone) {
            t->order_number[i - gone] = number;
            t->order_priority[i - gone] = priority;
        }
        for (uint32_t left = next_random(&random) % 7 + 1; left != 0; left--) {
            const int64_t price = next_random(&random) % 10000000;
            const totals line = {{1}, {price}, {price}, {price}};
            t->line_order[t->n_lines] = number;
            t->line_price[t->n_lines++] = price;
            if (i >= gone) {
                add(&t->right, priority, &line, 0);
            }
        }
    }
}

static void free_tables(const tables *t) {
    free(t->order_number);
    free(t->order_priority);
    free(t->line_order);
    free(t->line_price);
}

/* --- on the device -----------------------------------------------------------------------------
 */

static void *device_memory(wh_device *device, uint64_t bytes) {
    void *p = NULL;
    must(wh_device_alloc(device, &p, bytes));
    return p;
}

static void *copy_of(wh_device *device, const void *from, uint64_t bytes) {
    void *p = device_memory(device, bytes);
    must(wh_device_copy_in(device, p, from, bytes));
    return p;
}

/* The heap has room for both tables, which takes 8 bytes a row, for pages that are not full, half
 * as many again, and for a part of the result. */
static wh_heap *make_heap(wh_device *device, const tables *t, uint64_t *bytes) {
    wh_heap *heap = NULL;
    wh_heap_options options = {0};
    const int is_sim = wh_device_get_info(device)->target == WH_TARGET_SIM;
    options.device = device;
    must(wh_heap_min_bytes(&options, &options.bytes));
    options.bytes += 13 * ((uint64_t)t->n_orders + t->n_lines) + (is_sim ? 64 << 10 : 64 << 20);
    must(wh_heap_create(&heap, &options));
    *bytes = options.bytes;
    return heap;
}

static wh_join *make_join(wh_heap *heap, const tables *t) {
    wh_join *join = NULL;
    wh_join_options options = {0};
    options.heap = heap;
    options.build_value = WH_VALUE_4; /* priorities */
    options.probe_value = WH_VALUE_8; /* prices */
    options.build_rows = t->n_orders;
    options.probe_rows = t->n_lines;
    must(wh_join_create(&join, &options));
    return join;
}

/* rows: of a batch, at most. */
static void make_grouping(grouping *g, wh_device *device, wh_heap *heap, uint64_t rows) {
    wh_group_options options = {0};
    options.heap = heap;
    options.value = WH_GROUP_INT64;
    options.aggregates = WH_GROUP_COUNT | WH_GROUP_SUM | WH_GROUP_MIN | WH_GROUP_MAX;
    options.rows = rows;
    must(wh_group_create(&g->group, &options));
    g->device = device;
    g->priority = (uint32_t *)device_memory(device, rows * 4);
    g->price = (int64_t *)device_memory(device, rows * 8);
    g->found = (totals *)device_memory(device, sizeof *g->found);
    g->found_priority = (uint32_t *)device_memory(device, PRIORITIES * 4);
}

static void destroy_grouping(grouping *g) {
    must(wh_group_destroy(g->group));
    must(wh_device_free(g->device, g->priority));
    must(wh_device_free(g->device, g->price));
    must(wh_device_free(g->device, g->found));
    must(wh_device_free(g->device, g->found_priority));
}

/* Groups so many rows of the columns, and adds the groups to sum. There are few groups: the heap
 * has room for them. */
static void group_batch(grouping *g, uint64_t rows, totals *sum) {
    wh_table table = {0};
    wh_group_result result;
    totals found;
    uint32_t priority[PRIORITIES];
    void *to[WH_PAGE_COLUMNS] = {g->found_priority, g->found->lines, g->found->sum, g->found->least,
                                 g->found->most};
    table.key = g->priority;
    table.value = g->price;
    table.n = rows;
    must(wh_group_start(g->group, &table, NULL));
    must(wh_group_finish(g->group, &result));
    if (result.rows > PRIORITIES) {
        fail("there are more groups than priorities");
    }
    must(wh_group_compact(g->group, to, NULL));
    must(wh_group_drop_pages(g->group, NULL));
    must(wh_device_copy_out(g->device, &found, g->found, sizeof found));
    must(wh_device_copy_out(g->device, priority, g->found_priority, sizeof priority));
    for (uint32_t i = 0; i < result.rows; i++) {
        add(sum, priority[i], &found, i);
    }
}

/* Joins the tables; each time the heap is full, groups the rows that there are, gives their pages
 * back and goes on. Returns how many batches that took. */
static uint32_t join_and_group(wh_join *join, const wh_table *orders, const wh_table *lines,
                               grouping *g, totals *sum) {
    void *to[3] = {NULL, g->priority, g->price}; /* the order's number is no longer needed */
    wh_join_result result;
    wh_status status;
    uint32_t batches = 0;
    must(wh_join_start(join, orders, lines, NULL));
    do {
        status = wh_join_finish(join, &result);
        if (status == WH_OUT_OF_MEMORY && result.rows == 0) {
            fail("the heap is too small for the tables");
        }
        must(status == WH_OUT_OF_MEMORY ? WH_OK : status);
        must(wh_join_compact(join, WH_JOIN_MATCHED, to, NULL));
        must(wh_join_drop_pages(join, NULL)); /* on the same stream: after the copy */
        group_batch(g, result.rows, sum);
        fprintf(stderr, "batch %u: %llu rows, %llu so far\n", (unsigned)++batches,
                (unsigned long long)result.rows, (unsigned long long)result.all_rows);
        must(status == WH_OUT_OF_MEMORY ? wh_join_resume(join, NULL) : WH_OK);
    } while (status == WH_OUT_OF_MEMORY);
    return batches;
}

/* --- the result --------------------------------------------------------------------------------
 */

static void print(const totals *t) {
    printf("%-10s%12s%20s%12s%12s%12s\n", "priority", "lines", "sum", "average", "least", "most");
    for (uint32_t p = 0; p < PRIORITIES; p++) {
        if (t->lines[p] != 0) {
            const double sum = (double)t->sum[p] / 100;
            printf("%-10s%12llu%20.2f%12.2f%12.2f%12.2f\n", priority_names[p],
                   (unsigned long long)t->lines[p], sum, sum / (double)t->lines[p],
                   (double)t->least[p] / 100, (double)t->most[p] / 100);
        }
    }
}

static void write_csv(const totals *t, const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fprintf(file, "priority,lines,sum_cents,least_cents,most_cents\n");
    for (uint32_t p = 0; p < PRIORITIES; p++) {
        if (t->lines[p] != 0) {
            fprintf(file, "%s,%llu,%lld,%lld,%lld\n", priority_names[p],
                    (unsigned long long)t->lines[p], (long long)t->sum[p], (long long)t->least[p],
                    (long long)t->most[p]);
        }
    }
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    wh_device *device = NULL;
    wh_stats stats = {0};
    wh_table orders = {0}, lines = {0};
    tables t;
    grouping g;
    totals sum;
    uint64_t heap_bytes = 0;
    must(wh_device_open(&device, argc > 1 ? argv[1] : "auto", NULL));
    const int is_sim = wh_device_get_info(device)->target == WH_TARGET_SIM;
    const char *usual = is_sim ? "4000" : "10000000";
    char *end = NULL;
    const unsigned long n = strtoul(argc > 2 ? argv[2] : usual, &end, 10);
    if (n == 0 || n > 200000000 || *end != '\0') {
        fail("usage: 07_tables [TARGET [ORDERS [FILE]]], ORDERS from 1 to 200000000");
    }
    make_tables(&t, (uint32_t)n);
    printf("%u orders, %u lines\n", (unsigned)t.n_orders, (unsigned)t.n_lines);

    void *columns[4] = {copy_of(device, t.order_number, 4 * (uint64_t)t.n_orders),
                        copy_of(device, t.order_priority, 4 * (uint64_t)t.n_orders),
                        copy_of(device, t.line_order, 4 * (uint64_t)t.n_lines),
                        copy_of(device, t.line_price, 8 * (uint64_t)t.n_lines)};
    orders.key = columns[0], orders.value = columns[1], orders.n = t.n_orders;
    lines.key = columns[2], lines.value = columns[3], lines.n = t.n_lines;
    wh_heap *heap = make_heap(device, &t, &heap_bytes);
    wh_join *join = make_join(heap, &t);
    make_grouping(&g, device, heap, heap_bytes / 16); /* a row of the join has 16 bytes */
    clear(&sum);
    const uint32_t batches = join_and_group(join, &orders, &lines, &g, &sum);
    const int is_right = memcmp(&sum, &t.right, sizeof sum) == 0;
    print(&sum);
    if (argc > 3) {
        write_csv(&sum, argv[3]);
    }
    printf("%s, in %u batches\n", is_right ? "right" : "wrong", (unsigned)batches);

    must(wh_join_destroy(join));
    destroy_grouping(&g);
    must(wh_heap_get_stats(heap, &stats));
    wh_heap_destroy(heap);
    for (uint32_t c = 0; c < 4; c++) {
        must(wh_device_free(device, columns[c]));
    }
    wh_device_close(device);
    free_tables(&t);
    return is_right && stats.live_blocks == 0 ? 0 : 1;
}
