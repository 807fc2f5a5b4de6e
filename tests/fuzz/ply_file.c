/* ply_file.c: what is read of a PLY file before assimp gets it: the header, and all that it
 * announces. (assimp is another project, and not looked at here.) What is refused says why. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "warpheap/device.h"
#include "workload/mesh/ply.h"

void fuzz_one(const uint8_t *bytes, size_t n) {
    char *text = malloc(n != 0 ? n : 1); /* of its very size: the sanitizer sees its end */
    fuzz_require(text != NULL, "there is memory");
    memcpy(text, bytes, n);
    if (whi_is_ply(text, n) && whi_ply_check(text, n, "x.ply") != WH_OK) {
        fuzz_require(strncmp(wh_last_error_text(), "x.ply: PLY: ", 12) == 0, "an error says why");
    }
    free(text);
}
