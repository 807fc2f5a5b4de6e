/* csr_runs.h: a graph from arrays, for classes that take them as a batch that is laid out already:
 * the runs are the adjacencies to come. Included by <class>_kernels.c behind batch_kernels.h. */
#ifndef WHI_GRAPH_CSR_RUNS_H
#define WHI_GRAPH_CSR_RUNS_H

#include "batch_kernels.h"

/* from_csr: the arcs of what is no vertex become none. */
WH_FN void drop_row(const whi_graph_batch *b, uint64_t first, uint64_t r) {
    uint32_t bad = 0;
    for (uint64_t i = first; i < first + r; i++) {
        bad += b->scratch.run[i] != WH_GRAPH_NONE;
        b->scratch.run[i] = WH_GRAPH_NONE;
    }
    if (bad != 0) {
        wh_add_u64_relaxed(&b->counts->result.no_vertex, bad);
    }
}

/* from_csr: the runs are the adjacencies to come. */
WH_KERNEL(runs_of_csr, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    FOR_BLOCK_RUNS(first, b->n_vertices) {
        batch_runs runs;
        for (uint32_t j = 0; j < RUNS; j++) {
            const uint64_t v = first + (uint64_t)j * wh_block_threads();
            const int is = v < b->n_vertices;
            const uint64_t begin = is ? b->offset[v] : 0;
            const uint32_t r = is ? (uint32_t)(b->offset[v + 1] - begin) : 0;
            runs.v[j] = (uint32_t)v;
            runs.r[j] = r;
            runs.start[j] = is ? (uint32_t)(begin - b->offset[0]) : 0;
            if (r != 0 && !is_vertex(b, (uint32_t)v)) {
                drop_row(b, runs.start[j], r);
            }
        }
        place_runs(b, &runs, 0);
    }
}

/* The copy of a batch's ends into the runs; ends that are no vertices are dropped. */
WH_KERNEL(copy_csr, batch_args, a) {
    const whi_graph_batch *b = &a.b;
    uint32_t bad = 0;
    FOR_ROUNDS(i, b->n) {
        const uint32_t to = i < b->n ? b->out[i] : 0;
        if (i < b->n) {
            b->scratch.run[i] = is_vertex(b, to) ? to : WH_GRAPH_NONE;
            bad += !is_vertex(b, to);
            if (orders(b)) {
                b->scratch.order[i] = (uint32_t)i;
            }
        }
    }
    add_bad(b, bad);
}

static wh_status graph_from_csr(wh_heap *heap, void *stream, const whi_graph_batch *b) {
    whi_graph_batch of_vertices = *b;
    of_vertices.n = b->n_vertices;
    TRY(start(copy_csr, heap, stream, b, b->n));
    TRY(start(runs_of_csr, heap, stream, b, (b->n_vertices + RUNS - 1) / RUNS));
    return work(heap, stream, &of_vertices, insert_all);
}

#endif
