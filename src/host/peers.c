/* peers.c: heaps that kernels of several devices use at once.
 *
 * The heap's own device answers for the memory: a peer is one of the same back-end for which it has
 * opened all that kernels touch. That is the heap's memory, of a reserved heap what is mapped of
 * it, now and later, and the room of a checked heap; boxes of records and of growth are the host's,
 * and open to all. */
#include "heap_internal.h"
#include "last_error.h"
#include "nvtx_internal.h"
#include "reserve.h"
#include "try.h"

wh_status whi_heap_settle(const wh_heap *h) {
    wh_status s = wh_device_sync(h->device);
    for (uint32_t i = 0; i < h->n_peers; i++) {
        const wh_status its = wh_device_sync(h->peers[i]);
        s = s == WH_OK ? its : s;
    }
    return s;
}

wh_status whi_peers_open(const wh_heap *h, void *at, uint64_t bytes) {
    for (uint32_t i = 0; i < h->n_peers; i++) {
        TRY(h->device->ops->peer_open(h->device, h->peers[i], at, bytes));
    }
    return WH_OK;
}

void whi_peers_drop(wh_heap *h) {
    while (h->n_peers > 0) {
        wh_device_close(h->peers[--h->n_peers]);
    }
}

/* Whether kernels of this device could use the heap's memory. */
static wh_status check_peer(const wh_heap *h, wh_device *peer) {
    const wh_device_info *own = wh_device_get_info(h->device), *its = wh_device_get_info(peer);
    if ((h->info->caps & WH_CAP_PEERS) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "heaps of %s are for kernels of one device (`warpheap info`: peers)",
                          h->info->name);
    }
    if (own->target != its->target) {
        return whi_refuse(
            WH_WRONG_TARGET,
            "the heap and the peer are not both of a GPU, or of the simulated device");
    }
    if (peer == h->device || (own->target == WH_TARGET_CUDA && own->ordinal == its->ordinal)) {
        return whi_refuse(WH_BAD_ARGUMENT, "the heap lies on this device: it is no peer of itself");
    }
    if ((h->watch.violations != NULL || h->watch.failures != NULL) &&
        own->target == WH_TARGET_CUDA) {
        return whi_refuse(WH_UNSUPPORTED,
                          "the heap keeps records (tessera.checked, failure_records): atomics in "
                          "memory of the host, where they are those of one GPU");
    }
    if (h->abi_handle != 0 && own->target == WH_TARGET_CUDA) {
        return whi_refuse(WH_UNSUPPORTED,
                          "the heap has a handle of warpheap_abi.h, whose functions "
                          "are for kernels of one GPU");
    }
    const wh_status s = h->device->ops->peer_check(h->device, peer);
    if (s == WH_NO_PEER_ACCESS) {
        return whi_refuse(s,
                          "kernels of GPU %d cannot address memory of GPU %d: there is no peer "
                          "access between them (nvidia-smi topo -p2p r)",
                          (int)its->ordinal, (int)own->ordinal);
    }
    if (s == WH_NO_PEER_ATOMICS) {
        return whi_refuse(s,
                          "the link from GPU %d to GPU %d has no atomics, which every malloc and "
                          "free makes (nvidia-smi topo -p2p a)",
                          (int)its->ordinal, (int)own->ordinal);
    }
    return s;
}

/* Opens all that is there to the last peer. With the lock of a reserved heap. */
static wh_status open_all(wh_heap *h) {
    wh_device *peer = h->peers[h->n_peers - 1];
    const whi_device_ops *ops = h->device->ops;
    if (h->watch.room != NULL) {
        TRY(ops->peer_open(h->device, peer, h->watch.room, h->watch.room_bytes));
    }
    return h->reserve != NULL && ops->peer_share != NULL
               ? whi_reserve_share(h, peer)
               : ops->peer_open(h->device, peer, h->memory, h->bytes);
}

static int is_peer(const wh_heap *h, const wh_device *device) {
    const int32_t ordinal = wh_device_get_info(device)->ordinal;
    for (uint32_t i = 0; i < h->n_peers; i++) {
        if (h->peers[i] == device ||
            (ordinal >= 0 && wh_device_get_info(h->peers[i])->ordinal == ordinal)) {
            return 1;
        }
    }
    return 0;
}

wh_status wh_heap_enable_peer(wh_heap *heap, wh_device *device) {
    WHI_RANGE("wh_heap_enable_peer");
    whi_forget_error();
    if (heap == NULL || device == NULL) {
        return WH_BAD_ARGUMENT;
    }
    TRY(check_peer(heap, device));
    TRY(whi_heap_settle(heap));
    if (is_peer(heap, device)) {
        return WH_OK;
    }
    if (heap->n_peers == WHI_MOST_PEERS) {
        return whi_refuse(WH_UNSUPPORTED, "the heap has %u peers already", WHI_MOST_PEERS);
    }
    whi_reserve_lock(heap); /* what a thread maps meanwhile */
    whi_device_hold(device);
    heap->peers[heap->n_peers++] = device;
    const wh_status s = open_all(heap);
    heap->n_peers -= s != WH_OK;
    whi_reserve_unlock(heap);
    if (s != WH_OK) {
        wh_device_close(device);
    }
    return s;
}

uint32_t wh_heap_peers(const wh_heap *heap) {
    return heap != NULL ? heap->n_peers : 0;
}
