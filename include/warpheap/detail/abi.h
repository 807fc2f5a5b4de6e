/* detail/abi.h: what the host and the functions of warpheap_abi.h agree on: the record behind a
 * handle. Internal: may change, as wh_abi_key says so.
 *
 * The host writes a record when it is first asked for the heap's handle, between kernels, and
 * clears its seal when the heap is destroyed; its memory stays until the process ends, so that a
 * look at the record of a heap that is gone is no wild load. A handle is
 *
 *     bits 63..8   the address of the record, a multiple of 256
 *     bits 7..1    how often the record has been given to a heap, modulo 128
 *     bit 0        WH_ABI_ON_GPU: the record is in memory of a GPU, not of the simulated device
 *
 * The seal of a record is the handle and the key, in one word: so a call makes one comparison.
 */
#ifndef WH_DETAIL_ABI_H
#define WH_DETAIL_ABI_H

#include "warpheap/warpheap.h"
#include "warpheap/warpheap_abi.h"

#include "warpheap/detail/simt/begin.h"

#define WH_ABI_RECORD_BYTES 256u
#define WH_ABI_ON_GPU 1u
#define WH_ABI_LAYOUT WH_OF_(layout)

typedef struct wh_abi_record {
    uint64_t seal; /* handle + key; 0: of no heap */
    /* For people with a debugger. */
    uint64_t layout;
    uint32_t abi_version;
    uint32_t version; /* WH_VERSION of the library */
    char allocator[24];
    uint64_t padding[2];
    wh_heap_ref heap; /* at 64 */
} wh_abi_record;

WH_STATIC_ASSERT(sizeof(wh_abi_record) <= WH_ABI_RECORD_BYTES, "a record has room for the handle");
WH_STATIC_ASSERT(offsetof(wh_abi_record, heap) == 64, "the heap begins on a line of its own");

#if WH_HAS_HOST
/* What code and heap have to have in common: fields of the record, layout of the heap, the minor
 * version while the first number is 0. */
static inline WH_CONSTEXPR uint64_t wh_abi_key(void) {
    const uint64_t parts[] = {WH_ABI1_VERSION, WH_VERSION / 100, sizeof(wh_abi_record),
                              WH_ABI_LAYOUT()};
    return wh_layout_hash("wh_abi", parts, sizeof parts / sizeof *parts);
}
/* The same for the simulated device, whose functions are of the same library as the host's. */
#define WH_ABI_SIM_KEY ((uint64_t)0x5eed0001)
#endif

/* The record of a handle, if it is one of this kind of device; NULL: it is not. */
WH_FN const wh_abi_record *wh_abi_record_of_(wh_abi1_heap handle) {
    const uint32_t target = WH_TARGET_IS_SIM ? 0 : WH_ABI_ON_GPU;
    if (handle < WH_ABI_RECORD_BYTES || (wh_low_u32(handle) & 1) != target) {
        return NULL;
    }
    return (const wh_abi_record *)(uintptr_t)(handle & ~(uint64_t)(WH_ABI_RECORD_BYTES - 1));
}

#include "warpheap/detail/simt/end.h"

#endif
