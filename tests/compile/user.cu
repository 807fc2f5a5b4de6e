/* user.cu: a file of a user, with each call of a kernel, for users.sh and nvrtc.py. */
#include <warpheap/warpheap.h>

typedef struct args {
    wh_heap_ref heap;
    void **out;
} args;
WH_KERNEL(user, args, a) {
    const wh_mask here = wh_activemask();
    void *p = wh_realloc(a.heap, wh_calloc(a.heap, 3, 5), 50);
    wh_free(a.heap,
            wh_owns(a.heap, p) ? p : wh_aligned_alloc(a.heap, 64, wh_usable_size(a.heap, p)));
    a.out[wh_thread_id()] = wh_malloc_warp(a.heap, here, 100);
    wh_free_warp(a.heap, here, a.out[wh_thread_id()]);
    wh_free_lanes(a.heap, here, wh_malloc_lanes(a.heap, here, 16));
    wh_syncwarp(here);
    wh_syncthreads();
    if (wh_any_here(a.out[0] == a.out[1]) != 0 && wh_ballot(here, 1) != here) {
        wh_trap("no lane comes here");
    }
}
wh_status use(const wh_launch *launch, const wh_heap *heap, args *a, const void **symbol);
wh_status use(const wh_launch *launch, const wh_heap *heap, args *a, const void **symbol) {
    *symbol = WH_KERNEL_SYMBOL(user);
    const wh_status status = wh_heap_handle(heap, &a->heap);
    return status == WH_OK ? user(launch, a) : status;
}
