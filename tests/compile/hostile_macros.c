/* hostile_macros.c: every call, in a file of macros. C, C++ and CUDA C++. */
#include "hostile_macros.h"

#include <warpheap/arena.h>
#include <warpheap/graph_algorithms.h>
#include <warpheap/graph_device.h>
#include <warpheap/graph_vertices.h>
#include <warpheap/kdtree.h>
#include <warpheap/kdtree_device.h>
#include <warpheap/warpheap.h>

#include "hostile_macros.h"

typedef struct args {
    wh_heap_ref where;
    void **out;
} args;

WH_KERNEL(all_calls, args, a) {
    void *p = wh_malloc(a.where, 64);
    p = wh_realloc(a.where, p, wh_usable_size(a.where, p) + 1);
    if (wh_owns(a.where, p)) {
        wh_free(a.where, p);
    }
    wh_free(a.where, wh_calloc(a.where, 3, 5));
    wh_free(a.where, wh_aligned_alloc(a.where, 64, 5));
    const wh_mask here = wh_activemask();
    wh_free_warp(a.where, here, wh_malloc_warp(a.where, here, 100));
    wh_free_lanes(a.where, here, wh_malloc_lanes(a.where, here, 100));
    a.out[wh_thread_id()] = wh_malloc(a.where, 16);
}

WH_KERNEL(all_arenas, args, a) {
    WH_SHARED(wh_block_arena, shared, 1);
    wh_arena mine = wh_arena_open(0, 0);
    wh_warp_arena ours = wh_warp_arena_open(WH_FULL_WARP, 0, 0);
    wh_block_arena_open(a.where, shared, 0, 0);
    const wh_arena_place here = wh_arena_mark(&mine), there = wh_warp_arena_mark(&ours);
    const wh_arena_place where = wh_block_arena_mark(shared);
    a.out[0] = wh_arena_malloc(a.where, &mine, 16);
    a.out[1] = wh_arena_aligned_alloc(a.where, &mine, 64, 16);
    a.out[2] = wh_warp_arena_malloc(a.where, &ours, 16);
    a.out[3] = wh_warp_arena_aligned_alloc(a.where, &ours, 64, 16);
    a.out[4] = wh_block_arena_malloc(a.where, shared, 16);
    a.out[5] = wh_block_arena_aligned_alloc(a.where, shared, 64, 16);
    wh_arena_rewind(a.where, &mine, here);
    wh_warp_arena_rewind(a.where, &ours, there);
    wh_block_arena_rewind(a.where, shared, where);
    wh_arena_close(a.where, &mine);
    wh_warp_arena_close(a.where, &ours);
    wh_block_arena_close(a.where, shared);
}

/* The user's own macros are as they were. */
#define text_(x) #x
#define text_of(x) text_(x)
#undef HOSTILE
#define HOSTILE mine
WH_STATIC_ASSERT(sizeof(text_of(near) "") == 1, "an empty macro came back");
WH_STATIC_ASSERT(sizeof text_of(small) == sizeof "mine", "an object macro came back");
WH_STATIC_ASSERT(sizeof text_of(free(1)) == sizeof "mine", "a function macro came back");

wh_status use(const wh_launch *launch, const wh_heap *of, args *a);
wh_status use(const wh_launch *launch, const wh_heap *of, args *a) {
    const wh_status status = wh_heap_handle(of, &a->where);
    const wh_status called = status == WH_OK ? all_calls(launch, a) : status;
    return called == WH_OK ? all_arenas(launch, a) : called;
}
