/* graph_file.c: files of graphs. The first byte says which name the file has. What is read must be
 * a graph: all ends are vertices. What is refused says why. */
#include <stdio.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "workload/graph/graph_file.h"

void fuzz_one(const uint8_t *bytes, size_t n) {
    static const char *const endings[] = {".mtx", ".graph", ".txt", ".mtx.gz"};
    wh_graph_file_options options;
    wh_graph_arcs arcs;
    wh_graph_file_error error;
    char text[600];
    if (n == 0) {
        return;
    }
    memset(&options, 0, sizeof options);
    memset(&error, 0, sizeof error);
    options.undirected = bytes[0] >> 2 & 1;
    options.max_vertices = 1u << 16;
    const char *path = fuzz_file(bytes + 1, n - 1, endings[bytes[0] & 3]);
    if (wh_graph_file_read(path, &options, &arcs, &error) != WH_OK) {
        wh_graph_file_error_format(&error, text, sizeof text);
        fuzz_require(error.status != WH_OK && error.text[0] != '\0', "an error says why");
        fuzz_require(strncmp(text, path, strlen(path)) == 0, "an error names the file");
        fuzz_require(arcs.n_arcs == 0 && arcs.from == NULL, "there are no arcs then");
        return;
    }
    fuzz_require(arcs.n_vertices <= options.max_vertices, "there are not too many vertices");
    for (uint64_t i = 0; i < arcs.n_arcs; i++) {
        fuzz_require(arcs.from[i] < arcs.n_vertices && arcs.to[i] < arcs.n_vertices,
                     "ends of arcs are vertices");
    }
    wh_graph_csr csr;
    if (wh_graph_csr_build(&csr, arcs.n_vertices, arcs.from, arcs.to, arcs.n_arcs, NULL) == WH_OK) {
        fuzz_require(csr.n_arcs == arcs.n_arcs, "lists have all arcs");
        wh_graph_csr_free(&csr);
    }
    wh_graph_arcs_free(&arcs);
}
