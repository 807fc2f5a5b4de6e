/* shard_algorithms.c: triangles of a graph on several ranks. Each rank copies its rows to the host,
 * and works on them there. (PageRank is in shard_pagerank.c.)
 */
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

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
