/* ply.h: whether a PLY file is whole. assimp's reader of PLY (5.2) runs on for ever at a header
 * without its end, reads beyond the end of a file that is cut off, and makes triangles of what is
 * not there; so files are looked at before it gets them. Host C11. */
#ifndef WHI_WORKLOAD_PLY_H
#define WHI_WORKLOAD_PLY_H

#include "warpheap/types.h"

/* Whether the content is that of a PLY file. */
int whi_is_ply(const char *bytes, size_t n);

/* Looks at all bytes of a PLY file: what the header announces is there, vertices have x, y and z,
 * and faces have corners that are vertices. BAD_FORMAT: it is not so; the text names the path. */
wh_status whi_ply_check(const char *bytes, size_t n, const char *path);

#endif
