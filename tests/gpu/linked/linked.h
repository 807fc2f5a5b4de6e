// linked.h: what the files of the program linked.cu share.
#ifndef LINKED_H
#define LINKED_H

#include <warpheap/core/hash.h>
#include <warpheap/warpheap.h>

struct request {
    wh_heap_ref heap;
    unsigned **blocks; // one a thread
    unsigned n;
    size_t least, most; // bytes of a block
};

__host__ __device__ inline size_t bytes_of(const request &r, unsigned i) {
    return r.least + (wh_spread32(i) >> 7) % (r.most - r.least + 1);
}

__device__ unsigned *take_one(const request &r, unsigned i); // in part.cu

// Of header_only.cu, which does not link the slow path: frees all blocks, and counts in *bad those
// that have not what take_one wrote. What a launch returns.
int give_all(const request &r, unsigned threads, unsigned *bad);

// Of the shared library: each thread takes a block and frees it, and *served counts those that got
// one. What a launch returns.
int serve_shared(const request &r, unsigned threads, unsigned *served);

#endif
