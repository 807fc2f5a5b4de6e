// part.cu: a function of the program linked.cu, from a second linked file.
#include "linked.h"

#if !WH_IS_LINKED
#error "this file is not linked"
#endif

// A block for thread i, with its number in the first and the last word.
__device__ unsigned *take_one(const request &r, unsigned i) {
    const size_t words = bytes_of(r, i) / sizeof(unsigned);
    unsigned *p = static_cast<unsigned *>(wh_malloc(r.heap, words * sizeof(unsigned)));
    if (p != nullptr) {
        p[0] = i;
        p[words - 1] = i;
    }
    return p;
}
