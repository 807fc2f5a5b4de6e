/* mesh.h: triangles for k-d trees, in host memory: read from files, made by a formula, or copied
 * side by side. Host C11.
 *
 * Every call replaces what *mesh was, without freeing it. On failure *mesh is empty, and
 * wh_last_error_text says why.
 */
#ifndef WHI_WORKLOAD_MESH_H
#define WHI_WORKLOAD_MESH_H

#include "warpheap/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_mesh {
    float *vertices;     /* [3 * n_vertices]: x, y, z of each */
    uint32_t *triangles; /* [3 * n_triangles]: numbers of vertices, all below n_vertices */
    uint64_t n_vertices, n_triangles;
} wh_mesh;

/* Most triangles of a mesh that is made here. */
#define WH_MESH_MOST_TRIANGLES (1u << 30)

/* Reads a file of OBJ, PLY, or another format that the library assimp reads, plain or gzip. gzip is
 * told by content, the format by the extension in front of .gz, or else by content. A file that
 * refers to other files is read without them. Polygons are cut into triangles. Vertices at the same
 * place become one. Points, lines, normals and colours are dropped. Triangles keep their order
 * within an object of the file.
 * Errors: IO_ERROR (the file cannot be opened or read, or its gzip data is damaged or cut off),
 * BAD_FORMAT (the content), OUT_OF_MEMORY, UNSUPPORTED: this build is without assimp. */
wh_status wh_mesh_read(wh_mesh *mesh, const char *path);

/* Makes a closed surface with bumps, of radius 1 or so, around the origin. It has 8 k^2 triangles,
 * which is near n_triangles, k >= 1. The triangles' corners run counterclockwise, seen from
 * outside. seed: which bumps. Errors: BAD_ARGUMENT: n_triangles is not 1..WH_MESH_MOST_TRIANGLES;
 * OUT_OF_MEMORY. */
wh_status wh_mesh_make(wh_mesh *mesh, uint64_t n_triangles, uint64_t seed);

/* Makes nx * ny * nz copies of a mesh in a grid, the first one where `from` is. Between the boxes
 * of two copies there is a tenth of the box's longest side. `to` is not `from`. Errors:
 * BAD_ARGUMENT: a count is 0, or there are more than UINT32_MAX vertices or triangles;
 * OUT_OF_MEMORY. */
wh_status wh_mesh_copies(wh_mesh *to, const wh_mesh *from, uint32_t nx, uint32_t ny, uint32_t nz);

/* An empty mesh, of zeros, is allowed. Leaves *mesh empty. */
void wh_mesh_free(wh_mesh *mesh);

#ifdef __cplusplus
}
#endif

#endif
