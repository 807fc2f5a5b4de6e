/* shard_algorithms.c: PageRank and triangles of a graph on several ranks. PageRank walks along arcs
 * on the device of each rank; sums of ranks meet on the host. For triangles each rank copies its
 * rows to the host, and works on them there.
 *
 * Ranks are integers of 2^-62, and what is done with them is what warpheap::graph does
 * (src/graph/algorithms_kernels.c), so that the results are the same bits: sums of integers do not
 * depend on who adds what first.
 */
#include "workload/ranks/shard_kernels.h"
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/tables.h"

WH_TABLES_ONCE(whi_shard_kernels, whi_shard_kernels_find)

#define ONE ((uint64_t)1 << 62)
#define ONE_FLOAT 4611686018427387904.0f

/* --- pagerank -----------------------------------------------------------------------------------
 */

typedef struct ranking {
    uint32_t *degree;    /* of each id in this rank's part */
    uint64_t *rank, *in; /* of each id: of this rank's vertices, and what its arcs bring to any */
    float *out;
    uint64_t damping, teleport, live;
    uint64_t sums[2]; /* change, dangling */
    whi_shard_walk walk;
    void *device_rank, *device_in;
    const whi_shard_kernels *kernels;
} ranking;

/* x by a fraction in 2^-64, rounded down. */
static uint64_t fraction_of(uint64_t x, uint64_t fraction) {
    return (uint64_t)((unsigned __int128)x * fraction >> 64);
}

static int owns(const wh_shard *s, uint32_t v) {
    return s->owner[v] == s->rank && s->is[v];
}

static uint64_t dangling_of(const wh_shard *s, const ranking *x) {
    uint64_t sum = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        sum += owns(s, v) && x->degree[v] == 0 ? x->rank[v] : 0;
    }
    return sum;
}

/* Along the arcs of this rank's vertices, on the device. */
static wh_status walk(wh_shard *s, ranking *x) {
    const uint64_t bytes = (uint64_t)s->n * 8;
    wh_status status = wh_device_copy_in(s->device, x->device_rank, x->rank, bytes);
    status = status == WH_OK ? wh_device_set(s->device, x->device_in, 0, bytes) : status;
    status = status == WH_OK ? x->kernels->push(s->device, &x->walk) : status;
    status = status == WH_OK ? wh_device_sync(s->device) : status;
    return status == WH_OK ? wh_device_copy_out(s->device, x->in, x->device_in, bytes) : status;
}

/* What the arcs of this rank's vertices bring, to the owners of their ends. */
static wh_status push(wh_shard *s, ranking *x) {
    whi_shard_report(s, walk(s, x), "a walk along the arcs");
    memset(s->out_bytes, 0, (size_t)s->size * sizeof *s->out_bytes);
    for (uint32_t v = 0; v < s->n; v++) {
        s->out_bytes[s->owner[v]] += 8;
    }
    unsigned char *out = whi_shard_out(s, (uint64_t)s->n * 8);
    uint64_t begin = 0;
    for (int r = 0; r < s->size; r++) {
        s->at[r] = begin;
        begin += s->out_bytes[r];
    }
    for (uint32_t v = 0; v < s->n && out != NULL; v++) {
        memcpy(out + s->at[s->owner[v]], &x->in[v], 8);
        s->at[s->owner[v]] += 8;
    }
    return wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
}

/* What came for this rank's vertices. */
static void sum_up(wh_shard *s, ranking *x) {
    uint64_t at = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        if (s->owner[v] == s->rank) {
            uint64_t sum = 0, part = 0;
            for (int r = 0; r < s->size; r++) {
                memcpy(&part, s->got.data + s->got.offset[r] + at, 8);
                sum += part;
            }
            x->in[v] = sum;
            at += 8;
        }
    }
}

static wh_status iterate(wh_shard *s, ranking *x) {
    const uint64_t spread = x->sums[1] / x->live;
    const wh_status status = push(s, x);
    if (status != WH_OK) {
        return status;
    }
    sum_up(s, x);
    x->sums[0] = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        if (owns(s, v)) {
            const uint64_t old = x->rank[v];
            const uint64_t rank = x->teleport + fraction_of(x->in[v] + spread, x->damping);
            x->rank[v] = rank;
            x->sums[0] += rank > old ? rank - old : old - rank;
        }
    }
    x->sums[1] = dangling_of(s, x);
    return wh_comm_all_reduce(s->comm, x->sums, 2, WH_COMM_U64, WH_COMM_SUM);
}

static void check_options(wh_shard *s, wh_graph_pagerank_options *o, const float *rank) {
    o->damping = o->damping == 0 ? 0.85 : o->damping;
    o->tolerance = o->tolerance == 0 ? 1e-6 : o->tolerance;
    o->most_iterations = o->most_iterations == 0 ? 100 : o->most_iterations;
    if (!(o->damping > 0 && o->damping < 1) || o->tolerance != o->tolerance || rank == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "pagerank: a damping above 0 and below 1, please");
    } else if (o->on_device || o->stream != NULL) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "pagerank: ranks are host memory");
    }
}

/* The first ranks: all alike, or what the caller has, which all ranks have. */
static wh_status first_ranks(const wh_shard *s, ranking *x, const float *start) {
    uint64_t upper = 0, lower = 0;
    int is_bad = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        const float rank = start != NULL && s->is[v] ? start[v] : 0.0f;
        const int is_rank = rank >= 0.0f && rank <= 1.0f;
        const uint64_t fixed = is_rank ? (uint64_t)(rank * ONE_FLOAT) : 0;
        upper += fixed >> 31;
        lower += fixed & 0x7fffffff;
        is_bad |= !is_rank;
        x->rank[v] = owns(s, v) ? ONE / x->live : 0;
    }
    const double one = (double)ONE, sum = (double)upper * 2147483648.0 + (double)lower;
    if (start != NULL && (is_bad || sum < 0.5 * one || sum > 2 * one)) {
        return WH_BAD_ARGUMENT;
    }
    const double scale = start != NULL ? one * (one / sum) : 0;
    for (uint32_t v = 0; v < s->n && start != NULL; v++) {
        x->rank[v] = owns(s, v) ? (uint64_t)((double)start[v] * scale) : 0;
    }
    x->sums[1] = dangling_of(s, x);
    return WH_OK;
}

/* Memory on the host and on the device; the first ranks. */
static wh_status take_ranking(wh_shard *s, ranking *x, const float *start) {
    const uint64_t bytes = (uint64_t)s->n * 8;
    x->degree = whi_shard_take(s, s->n, sizeof *x->degree);
    x->rank = whi_shard_take(s, s->n, sizeof *x->rank);
    x->in = whi_shard_take(s, s->n, sizeof *x->in);
    x->out = whi_shard_take(s, s->n, sizeof *x->out);
    if (x->degree == NULL || x->rank == NULL || x->in == NULL || x->out == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    x->kernels = whi_shard_kernels_find(wh_device_get_info(s->device)->target);
    wh_status status = wh_graph_handle(s->graph, &x->walk.graph);
    status = status == WH_OK ? wh_graph_degrees(s->graph, x->degree, 0, NULL) : status;
    status = status == WH_OK ? wh_device_alloc(s->device, &x->device_rank, bytes) : status;
    status = status == WH_OK ? wh_device_alloc(s->device, &x->device_in, bytes) : status;
    if (status == WH_OK) {
        x->walk.rank = x->device_rank;
        x->walk.in = x->device_in;
        status = first_ranks(s, x, start);
    }
    return status;
}

static wh_status begin_ranking(wh_shard *s, ranking *x, const wh_graph_pagerank_options *o) {
    const double one = (double)ONE;
    const uint64_t bits[3] = {(uint64_t)(o->damping * 1e9), o->most_iterations,
                              (uint64_t)(o->tolerance * 1e15)};
    x->live = s->live != 0 ? s->live : 1;
    x->damping = (uint64_t)(o->damping * 18446744073709551616.0);
    x->teleport = (uint64_t)((1 - o->damping) * one / (double)x->live);
    whi_shard_report(s, take_ranking(s, x, o->start), "pagerank: memory, or start");
    wh_status status = wh_comm_agree(s->comm); /* pagerank on all ranks */
    if (status == WH_OK) {
        wh_comm_expect(s->comm, bits[0] ^ bits[1] << 20 ^ bits[2] << 7, "options of pagerank");
        status = wh_comm_all_reduce(s->comm, x->sums, 2, WH_COMM_U64, WH_COMM_SUM);
    }
    return status;
}

static wh_status pagerank(wh_shard *s, ranking *x, const wh_graph_pagerank_options *o,
                          wh_graph_pagerank_result *r) {
    wh_status status = begin_ranking(s, x, o);
    while (status == WH_OK) {
        status = iterate(s, x);
        r->iterations++;
        r->change = (double)x->sums[0] / (double)ONE;
        if (!(r->change > o->tolerance) || r->iterations >= o->most_iterations) {
            break;
        }
    }
    if (status == WH_OK) {
        for (uint32_t v = 0; v < s->n; v++) {
            x->out[v] = (float)x->rank[v] / ONE_FLOAT;
        }
        status = whi_shard_spread(s, x->out, sizeof *x->out);
    }
    return status;
}

wh_status wh_shard_pagerank(wh_shard *s, const wh_graph_pagerank_options *options, float *rank,
                            wh_graph_pagerank_result *result) {
    ranking x = {0};
    wh_graph_pagerank_options o = {0};
    wh_graph_pagerank_result r = {0, 0};
    wh_status status = whi_shard_begin(s, "pagerank");
    if (status != WH_OK) {
        return status;
    }
    if (options != NULL) {
        o = *options;
    }
    check_options(s, &o, rank);
    status = pagerank(s, &x, &o, &r);
    if (status == WH_OK) {
        memcpy(rank, x.out, (uint64_t)s->n * sizeof *rank);
    }
    if (result != NULL) {
        *result = r;
    }
    (void)wh_device_free(s->device, x.device_rank);
    (void)wh_device_free(s->device, x.device_in);
    free(x.degree);
    free(x.rank);
    free(x.in);
    free(x.out);
    return status;
}

/* --- triangles ----------------------------------------------------------------------------------
 */

/* Each vertex's neighbours that come after it, by degree and number, in order of their numbers. A
 * triangle belongs to the one of its vertices that comes first: its list has both others, and the
 * list of the second one has the third. */
typedef struct forward {
    whi_shard_rows rows; /* of which only these are left */
    uint64_t *end;       /* of a row; it begins at rows.offset */
    uint32_t *degree;    /* of each id of all ranks */
} forward;

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int comes_after(const forward *f, uint32_t w, uint32_t v) {
    return f->degree[w] != f->degree[v] ? f->degree[w] > f->degree[v] : w > v;
}

static void make_lists(wh_shard *s, forward *f) {
    for (uint32_t v = 0; v < s->n; v++) {
        uint64_t end = f->rows.offset[v];
        for (uint64_t i = f->rows.offset[v]; i < f->rows.offset[v + 1]; i++) {
            if (comes_after(f, f->rows.to[i], v)) {
                f->rows.to[end++] = f->rows.to[i];
            }
        }
        f->end[v] = end;
        qsort(f->rows.to + f->rows.offset[v], end - f->rows.offset[v], sizeof *f->rows.to,
              compare_u32);
    }
}

/* Numbers that two lists in order have in common. */
static uint64_t common(const uint32_t *a, uint64_t n, const uint32_t *b, uint64_t m) {
    uint64_t sum = 0, j = 0;
    for (uint64_t i = 0; i < n; i++) {
        while (j < m && b[j] < a[i]) {
            j++;
        }
        sum += j < m && b[j] == a[i];
    }
    return sum;
}

/* Triangles of a list: of each of its vertices that are this rank's, with its own list. */
static uint64_t look_up(const wh_shard *s, const forward *f, const uint32_t *list, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t w = list[i];
        if (s->owner[w] == s->rank) {
            const uint64_t begin = f->rows.offset[w];
            sum += common(list, n, f->rows.to + begin, f->end[w] - begin);
        }
    }
    return sum;
}

/* Bytes of v's list for each rank that owns one of its vertices, but this one: into add, which is
 * zero before. */
static uint64_t bytes_of_list(const wh_shard *s, const forward *f, uint32_t v, uint64_t *add) {
    const uint64_t begin = f->rows.offset[v], n = f->end[v] - begin;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const int r = s->owner[f->rows.to[begin + i]];
        if (r != s->rank && add[r] == 0) {
            add[r] = 4 * (n + 1);
            sum += add[r];
        }
    }
    return sum;
}

/* Packs the lists from vertex *next on, up to a piece; *next: the first one that is left. add: an
 * entry for each rank. */
static void pack_lists(wh_shard *s, const forward *f, uint32_t *next, uint64_t *add) {
    const size_t all = (size_t)s->size * sizeof *add;
    uint64_t bytes = 0;
    uint32_t end = *next;
    memset(s->out_bytes, 0, all);
    for (; end < s->n; end++) {
        memset(add, 0, all);
        const uint64_t more = bytes_of_list(s, f, end, add);
        if (bytes != 0 && bytes + more > s->piece) {
            break;
        }
        for (int r = 0; r < s->size; r++) {
            s->out_bytes[r] += add[r];
        }
        bytes += more;
    }
    unsigned char *out = whi_shard_out(s, bytes);
    uint64_t begin = 0;
    for (int r = 0; r < s->size; r++) {
        s->at[r] = begin;
        begin += s->out_bytes[r];
    }
    for (uint32_t v = *next; v < end && out != NULL; v++) {
        const uint32_t n = (uint32_t)(f->end[v] - f->rows.offset[v]);
        memset(add, 0, all);
        (void)bytes_of_list(s, f, v, add);
        for (int r = 0; r < s->size; r++) {
            if (add[r] != 0) {
                memcpy(out + s->at[r], &n, 4);
                memcpy(out + s->at[r] + 4, f->rows.to + f->rows.offset[v], 4 * (size_t)n);
                s->at[r] += add[r];
            }
        }
    }
    *next = end;
}

static uint64_t look_up_all(wh_shard *s, const forward *f) {
    const uint32_t *at = (const uint32_t *)(const void *)s->got.data;
    const uint32_t *end = at + s->got.offset[s->size] / 4;
    uint64_t sum = 0;
    while (at < end) {
        sum += look_up(s, f, at + 1, at[0]);
        at += 1 + at[0];
    }
    return sum;
}

/* Lists go in pieces until no rank has one left. */
static wh_status count_lists(wh_shard *s, const forward *f, uint64_t *add, uint64_t *total) {
    uint64_t sums[2] = {0, 1}; /* triangles, vertices that are left */
    uint32_t next = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        const uint64_t begin = f->rows.offset[v];
        sums[0] += look_up(s, f, f->rows.to + begin, f->end[v] - begin);
    }
    uint64_t own = sums[0];
    wh_status status = WH_OK;
    do {
        pack_lists(s, f, &next, add);
        status = wh_comm_all_to_all(s->comm, s->out, s->out_bytes, &s->got);
        if (status == WH_OK) {
            own += look_up_all(s, f);
            sums[0] = own;
            sums[1] = s->n - next;
            status = wh_comm_all_reduce(s->comm, sums, 2, WH_COMM_U64, WH_COMM_SUM);
        }
    } while (status == WH_OK && sums[1] != 0);
    *total = sums[0];
    return status;
}

wh_status wh_shard_triangles(wh_shard *s, uint64_t *total) {
    forward f = {0};
    uint64_t own = 0;
    wh_status status = whi_shard_begin(s, "triangles");
    if (status != WH_OK) {
        return status;
    }
    if (total == NULL) {
        wh_comm_report(s->comm, WH_BAD_ARGUMENT, "wh_shard_triangles wants a number");
    } else if (!s->undirected) {
        wh_comm_report(s->comm, WH_UNSUPPORTED, "triangles are those of an undirected graph");
    }
    uint64_t *add = whi_shard_take(s, (uint64_t)s->size, sizeof *add);
    f.degree = whi_shard_take(s, s->n, sizeof *f.degree);
    f.end = whi_shard_take(s, s->n, sizeof *f.end);
    if (whi_shard_rows_of(s, &f.rows) == WH_OK && f.degree != NULL) {
        for (uint32_t v = 0; v < s->n; v++) {
            f.degree[v] = (uint32_t)(f.rows.offset[v + 1] - f.rows.offset[v]);
        }
    }
    status = whi_shard_spread(s, f.degree, sizeof *f.degree);
    if (status == WH_OK) {
        make_lists(s, &f);
        status = count_lists(s, &f, add, &own);
    }
    if (status == WH_OK) {
        *total = own;
    }
    whi_shard_rows_free(&f.rows);
    free(f.degree);
    free(f.end);
    free(add);
    return status;
}
