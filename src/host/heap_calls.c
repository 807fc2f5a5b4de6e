/* heap_calls.c: malloc and free by the host. Kernels are compiled for the simulated device alone
 * (CMakeLists.txt): on a GPU programs have kernels of their own, and these take long to compile. */
#include "heap_calls_internal.h"

#include "built_list.h"
#include "heap_internal.h"
#include "last_error.h"
#include "nvtx_internal.h"

#define BLOCK_THREADS 128u

/* Of the simulated device alone. */
#undef WH_TABLES_CUDA_
#define WH_TABLES_CUDA_(type, ident, caps) NULL
WH_TABLES_OF(whi_heap_call_ops, whi_heap_call_ops_find, WH_CAP_DISJOINT)

/* What a call needs of the allocator, WH_CAP_*, and what it is called. */
static const uint32_t call_needs[WH_CALL_KINDS] = {
    [WH_CALL_REALLOC] = WH_CAP_USABLE_SIZE,
    [WH_CALL_ALIGNED_ALLOC] = WH_CAP_ALIGNED,
    [WH_CALL_USABLE_SIZE] = WH_CAP_USABLE_SIZE,
    [WH_CALL_OWNS] = WH_CAP_OWNS,
};
#define CALL_TEXT_(name, text) text,
static const char *const call_texts[WH_CALL_KINDS] = {WH_CALL_LIST(CALL_TEXT_)};

static wh_status run(wh_heap *heap, const whi_heap_call_ops *ops, wh_heap_call *calls, uint32_t n) {
    wh_device *d = heap->device;
    const uint64_t bytes = (uint64_t)n * sizeof *calls;
    void *there = NULL;
    wh_status s = heap->n_peers != 0 ? whi_heap_settle(heap) : WH_OK;
    s = s == WH_OK ? wh_device_alloc(d, &there, bytes) : s;
    if (s != WH_OK) {
        return s;
    }
    s = wh_device_copy_in(d, there, calls, bytes);
    if (s == WH_OK) {
        const wh_launch l = wh_grid(d, (n - 1) / BLOCK_THREADS + 1, BLOCK_THREADS);
        s = ops->run(&l, heap->handle, there, n);
    }
    s = s == WH_OK ? wh_device_sync(d) : s;
    s = s == WH_OK ? wh_device_copy_out(d, calls, there, bytes) : s;
    (void)wh_device_free(d, there);
    return s;
}

wh_status wh_heap_make_calls(wh_heap *heap, wh_heap_call *calls, size_t call_bytes, uint32_t n) {
    WHI_RANGE("wh_heap_make_calls");
    whi_forget_error();
    if (heap == NULL || (calls == NULL && n != 0)) {
        return WH_BAD_ARGUMENT;
    }
    if (call_bytes != sizeof *calls) {
        return whi_refuse(WH_WRONG_BUILD,
                          "a wh_heap_call of %zu bytes is none that this library knows (its own "
                          "has %zu)",
                          call_bytes, sizeof *calls);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (calls[i].kind >= WH_CALL_KINDS) {
            return whi_refuse(WH_BAD_ARGUMENT, "call %u is of the kind %u: there are %d",
                              (unsigned)i, (unsigned)calls[i].kind, (int)WH_CALL_KINDS);
        }
    }
    const wh_target target = wh_device_get_info(heap->device)->target;
    if (target != WH_TARGET_SIM) {
        return whi_refuse(WH_UNSUPPORTED, "on a GPU kernels call malloc and free; the host does "
                                          "so on the simulated device alone");
    }
    const whi_heap_call_ops *ops = whi_heap_call_ops_find(heap->info->name, target);
    if (ops == NULL) {
        return whi_refuse(WH_UNSUPPORTED,
                          "the host cannot call malloc and free of %s: its blocks overlap, or this "
                          "build leaves it out",
                          heap->info->name);
    }
    for (uint32_t i = 0; i < n; i++) {
        if ((call_needs[calls[i].kind] & ~heap->info->caps) != 0) {
            return whi_refuse(WH_UNSUPPORTED, "call %u, %s: heaps of %s do not offer that",
                              (unsigned)i, call_texts[calls[i].kind], heap->info->name);
        }
    }
    return n != 0 ? run(heap, ops, calls, n) : WH_OK;
}
