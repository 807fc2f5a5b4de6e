/* graph_file.h: reads graph files: Matrix Market, METIS and SNAP edge lists, plain
 * or gzip. Host C11.
 *
 * A file becomes a list of arcs u -> v in file order. Vertices count from 0.
 *
 *   Matrix Market  coordinate; pattern, integer or real; values are read and
 *                  dropped. Row i, column j gives (i-1) -> (j-1). symmetric and
 *                  skew-symmetric files are undirected: each entry off the diagonal
 *                  gives both directions, one after the other. general is directed.
 *                  The matrix must be square.
 *   METIS          line i lists the neighbours of vertex i, so an undirected edge is
 *                  in the file twice already: arcs are taken as listed. Sizes and
 *                  weights that the header's fmt announces are read and dropped.
 *   edge list      "u v" or "u v time" a line, separated by blanks, tabs or commas.
 *                  Numbers are kept as they are, so in a 1-based file vertex 0 has no
 *                  arcs. Directed, unless options.undirected asks for both
 *                  directions. # and % start comment lines, whose text is ignored.
 *
 * The format is told by the first line ("%%MatrixMarket") or else by the extension
 * in front of .gz: .mtx and .mm Matrix Market, .graph and .metis METIS, anything
 * else an edge list. gzip is told by content.
 */
#ifndef WHI_WORKLOAD_GRAPH_FILE_H
#define WHI_WORKLOAD_GRAPH_FILE_H

#include "warpheap/types.h"

typedef enum wh_graph_format {
    WH_GRAPH_AUTO,
    WH_GRAPH_MATRIX_MARKET,
    WH_GRAPH_METIS,
    WH_GRAPH_EDGE_LIST
} wh_graph_format;

/* Zero means the default everywhere. */
typedef struct wh_graph_file_options {
    wh_graph_format format;
    int undirected;        /* edge lists: give both directions of each entry */
    uint32_t max_vertices; /* more than that is refused; default WH_GRAPH_MAX_VERTICES */
} wh_graph_file_options;

/* One number can claim an array of this many vertices, hence a bound. */
#define WH_GRAPH_MAX_VERTICES (1u << 28)

typedef struct wh_graph_arcs {
    wh_graph_format format;
    uint32_t n_vertices;   /* largest number + 1, or what the header says */
    uint64_t n_entries;    /* stored in the file */
    uint64_t n_self_loops; /* entries u u */
    uint64_t n_arcs;
    uint32_t *from; /* [n_arcs] */
    uint32_t *to;   /* [n_arcs] */
    int64_t *time;  /* [n_arcs], or NULL without a third column */
} wh_graph_arcs;

/* Where and why reading failed. */
typedef struct wh_graph_file_error {
    wh_status status;
    char file[256]; /* the path as given, shortened from the front if need be */
    uint64_t line;  /* from 1; 0 where the fault is not in a line */
    char text[256]; /* one line: what is wrong, and the mend */
} wh_graph_file_error;

/* Reads a whole file. On failure *arcs is empty and *error says where and why.
 * Errors: IO_ERROR (cannot be opened or read, or a damaged or cut-off gzip),
 * BAD_FORMAT (the content), OUT_OF_MEMORY. options may be NULL. */
wh_status wh_graph_file_read(const char *path, const wh_graph_file_options *options,
                             wh_graph_arcs *arcs, wh_graph_file_error *error);

/* "FILE:LINE: text" ("FILE: text" for line 0) into a string of size bytes. */
void wh_graph_file_error_format(const wh_graph_file_error *error, char *string, size_t size);

void wh_graph_arcs_free(wh_graph_arcs *arcs);

/* Adjacency lists, sorted; duplicates stay. */
typedef struct wh_graph_csr {
    uint32_t n_vertices;
    uint64_t n_arcs;
    uint64_t *offset; /* [n_vertices + 1] */
    uint32_t *to;     /* [n_arcs] */
} wh_graph_csr;

/* Sorts n arcs into lists: two counting sorts, time O(n_vertices + n).
 * keep (may be NULL): arc i is taken if keep[i] is not 0. Every vertex must be below
 * n_vertices. OUT_OF_MEMORY is the only error. */
wh_status wh_graph_csr_build(wh_graph_csr *csr, uint32_t n_vertices, const uint32_t *from,
                             const uint32_t *to, uint64_t n, const uint32_t *keep);
void wh_graph_csr_free(wh_graph_csr *csr);

#endif
