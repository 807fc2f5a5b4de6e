/* abi.c: handles for code that is linked by warpheap_abi.h: the records behind them
 * (warpheap/detail/abi.h).
 *
 * Records lie in pages of the device's memory, which nobody gives back: a kernel may look at the
 * record of a heap that is gone, and of a device that is closed. A page is for all heaps of the
 * process on its device, hence the lock. A slot that is free again is taken as late as possible. */
#include "warpheap/detail/abi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap_internal.h"
#include "last_error.h"
#include "try.h"

#define SLOTS 256u

typedef struct page {
    struct page *next;
    unsigned char *records; /* on the device, at a multiple of WH_ABI_RECORD_BYTES */
    wh_target target;
    int32_t ordinal; /* of the GPU */
    uint32_t n_free, first_free;
    uint8_t free[SLOTS];  /* a ring: from first_free on, in the order in which they came free */
    uint8_t times[SLOTS]; /* how often the slot has been taken */
} page;

static struct {
    pthread_mutex_t mutex;
    page *pages;
} table = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Memory that outlives the device object: that of the simulated one is the process's. */
static wh_status take_records(wh_device *d, page *p) {
    const size_t bytes = (size_t)SLOTS * WH_ABI_RECORD_BYTES;
    void *records = NULL;
    if (p->target == WH_TARGET_SIM) {
        records = aligned_alloc(WH_ABI_RECORD_BYTES, bytes);
        if (records == NULL) {
            return WH_OUT_OF_MEMORY;
        }
        memset(records, 0, bytes);
    } else {
        TRY(d->ops->alloc(d, &records, bytes));
        const wh_status s = d->ops->set(d, records, 0, bytes);
        if (s != WH_OK) {
            (void)d->ops->free(d, records);
            return s;
        }
    }
    p->records = records;
    return WH_OK;
}

static wh_status new_page(wh_device *d, page **of) {
    page *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    p->target = d->info.target;
    p->ordinal = d->info.ordinal;
    p->n_free = SLOTS;
    for (uint32_t i = 0; i < SLOTS; i++) {
        p->free[i] = (uint8_t)i;
    }
    const wh_status s = take_records(d, p);
    if (s != WH_OK) {
        free(p);
        return s;
    }
    p->next = table.pages;
    table.pages = p;
    *of = p;
    return WH_OK;
}

/* A handle that no live heap has. */
static wh_status take_slot(wh_device *d, unsigned long long *handle) {
    page *p = table.pages;
    while (p != NULL &&
           (p->target != d->info.target || p->ordinal != d->info.ordinal || p->n_free == 0)) {
        p = p->next;
    }
    if (p == NULL) {
        TRY(new_page(d, &p));
    }
    const uint32_t slot = p->free[p->first_free];
    p->first_free = (p->first_free + 1) % SLOTS;
    p->n_free--;
    p->times[slot]++;
    *handle = (uint64_t)(uintptr_t)(p->records + slot * WH_ABI_RECORD_BYTES) |
              (p->times[slot] & 127u) << 1 | (p->target != WH_TARGET_SIM ? WH_ABI_ON_GPU : 0);
    return WH_OK;
}

static void give_slot(unsigned long long handle) {
    for (page *p = table.pages; p != NULL; p = p->next) {
        const uint64_t at = (handle - (uint64_t)(uintptr_t)p->records) / WH_ABI_RECORD_BYTES;
        if (at < SLOTS) {
            p->free[(p->first_free + p->n_free++) % SLOTS] = (uint8_t)at;
            return;
        }
    }
}

static wh_status write_record(const wh_heap *h, unsigned long long handle, void *stream) {
    wh_abi_record r;
    memset(&r, 0, sizeof r);
    r.seal = handle + ((handle & WH_ABI_ON_GPU) != 0 ? wh_abi_key() : WH_ABI_SIM_KEY);
    r.layout = WH_ABI_LAYOUT();
    r.abi_version = WH_ABI1_VERSION;
    r.version = WH_VERSION;
    (void)snprintf(r.allocator, sizeof r.allocator, "%s", h->info->name);
    memcpy(&r.heap, h->handle, sizeof r.heap);
    void *at = (void *)(uintptr_t)(handle & ~(unsigned long long)(WH_ABI_RECORD_BYTES - 1));
    return h->device->ops->copy_in_on(h->device, at, &r, sizeof r, stream);
}

wh_status wh_heap_abi1_handle(wh_heap *heap, unsigned long long *handle) {
    whi_forget_error();
    if (handle == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *handle = 0;
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (strcmp(heap->info->name, WH_OF_(NAME)) != 0) {
        return whi_refuse(WH_WRONG_ALLOCATOR,
                          "the functions of warpheap_abi.h are for heaps of '%s', and this one is "
                          "of '%s': leave wh_heap_options.allocator NULL",
                          WH_OF_(NAME), heap->info->name);
    }
    if (heap->n_peers != 0 && wh_device_get_info(heap->device)->target == WH_TARGET_CUDA) {
        return whi_refuse(WH_UNSUPPORTED, "the functions of warpheap_abi.h are for heaps that "
                                          "kernels of one GPU use, and this one has peers");
    }
    wh_status s = WH_OK;
    (void)pthread_mutex_lock(&table.mutex);
    if (heap->abi_handle == 0) {
        unsigned long long made = 0;
        s = take_slot(heap->device, &made);
        if (s == WH_OK) {
            s = write_record(heap, made, NULL);
            if (s != WH_OK) {
                give_slot(made);
            }
        }
        heap->abi_handle = s == WH_OK ? made : 0;
    }
    *handle = heap->abi_handle;
    (void)pthread_mutex_unlock(&table.mutex);
    return s;
}

wh_status whi_abi_drop(wh_heap *h, void *stream) {
    if (h->abi_handle == 0) {
        return WH_OK;
    }
    const uint64_t none = 0;
    const uint64_t at = h->abi_handle & ~(uint64_t)(WH_ABI_RECORD_BYTES - 1);
    const wh_status s =
        h->device->ops->copy_in_on(h->device, (void *)(uintptr_t)at, &none, sizeof none, stream);
    if (s == WH_OK) { /* else nobody knows what is there: the slot is not used again */
        (void)pthread_mutex_lock(&table.mutex);
        give_slot(h->abi_handle);
        (void)pthread_mutex_unlock(&table.mutex);
    }
    h->abi_handle = 0;
    return s;
}
