/* heap.c: the host's calls on heaps, and the table of allocators. */
#include "warpheap/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "built_list.h"
#include "heap_internal.h"
#include "last_error.h"
#include "nvtx_internal.h"

/* Enough for any of the results that inspect brings to the host. */
#define SCRATCH_BYTES sizeof(wh_stats)

WH_TABLES(whi_alloc_ops, whi_alloc_ops_find)

static const wh_allocator_info allocators[] = {
#define INFO(ident, name, title, source, caps, max_align, max_size) \
    {name, title, source, caps, max_align, max_size, WH_FAMILY_TEXT(ident)},
    WH_BUILT_LIST(INFO)
#undef INFO
};

#define N_ALLOCATORS (sizeof allocators / sizeof *allocators)

const wh_allocator_info *wh_allocator_at(uint32_t index) {
    return index < N_ALLOCATORS ? &allocators[index] : NULL;
}

const wh_allocator_info *wh_allocator_find(const char *name) {
    if (name == NULL || strcmp(name, "default") == 0) {
        name = WH_DEFAULT_ALLOCATOR;
    }
    for (size_t i = 0; i < N_ALLOCATORS; i++) {
        if (strcmp(allocators[i].name, name) == 0) {
            return &allocators[i];
        }
    }
    return NULL;
}

static wh_status unknown_allocator(const char *name) {
    char known[200] = "";
    size_t n = 0;
    for (size_t i = 0; i < N_ALLOCATORS && n < sizeof known; i++) {
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i != 0 ? ", " : "",
                              allocators[i].name);
    }
    return whi_refuse(
        WH_UNKNOWN_ALLOCATOR,
        "no allocator '%.30s' is built in (CMake: WARPHEAP_ALLOCATORS); there are: %s", name,
        known);
}

/* Says what a plan refused. */
static wh_status refused(wh_status s, const wh_plan *plan, uint64_t bytes,
                         const wh_any_options *own) {
    if (s == WH_HEAP_TOO_SMALL) {
        return whi_refuse(s,
                          "a heap of %llu bytes is too small: this allocator needs %llu at least, "
                          "with these options on this device (wh_heap_min_bytes)",
                          (unsigned long long)bytes, (unsigned long long)plan->min_bytes);
    }
    char given[160];
    whi_options_text(own, given, sizeof given);
    if (s == WH_BAD_ARGUMENT && plan->max_bytes != 0) {
        return whi_refuse(s,
                          "a heap of %llu bytes is too large: this allocator has numbers for %llu "
                          "with these options%s%s; take larger chunks, or several heaps",
                          (unsigned long long)bytes, (unsigned long long)plan->max_bytes,
                          given[0] != '\0' ? ", " : "", given);
    }
    if (s == WH_BAD_ARGUMENT) {
        return whi_refuse(s, "an option is out of its range (options.h, `warpheap info`): %s",
                          given);
    }
    return s;
}

/* Resolves the allocator and the device of the options, and the allocator's own options. */
static wh_status resolve(const wh_heap_options *o, wh_device *device,
                         const wh_allocator_info **info, const whi_alloc_ops **ops,
                         wh_any_options *own) {
    *info = wh_allocator_find(o->allocator);
    if (*info == NULL) {
        return unknown_allocator(o->allocator);
    }
    const wh_target target = wh_device_get_info(device)->target;
    *ops = whi_alloc_ops_find((*info)->name, target);
    if (*ops == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "the allocator '%s' does not run on %s", (*info)->name,
                          target == WH_TARGET_SIM ? "the simulated device" : "GPUs");
    }
    return whi_options_read(own, o->options, *info);
}

wh_status whi_heap_read_options(wh_heap_options *o, const wh_heap_options *from,
                                size_t sizeof_there) {
    memset(o, 0, sizeof *o);
    if (from == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "there are no options: NULL");
    }
    const uint64_t bytes = from->struct_bytes != 0 ? from->struct_bytes : sizeof_there;
    if (bytes < offsetof(wh_heap_options, options) || bytes > sizeof *o) {
        return whi_refuse(
            WH_WRONG_BUILD,
            "wh_heap_options.struct_bytes is %llu, and this library knows %zu: it was "
            "built from other headers than the calling code, or the field is not set",
            (unsigned long long)bytes, sizeof *o);
    }
    memcpy(o, from, (size_t)bytes);
    return WH_OK;
}

/* Bytes of addresses that a heap of these options reserves; 0: none. */
static uint64_t reserved_by(const wh_heap_options *o, const wh_any_options *own) {
    return o->reserve_bytes != 0 ? o->reserve_bytes : whi_option_value(own, "reserve_bytes");
}

static wh_status can_reserve(const wh_allocator_info *info) {
    return (info->caps & WH_CAP_RESERVE) != 0
               ? WH_OK
               : whi_refuse(WH_UNSUPPORTED,
                            "heaps of %s reserve no address space (`warpheap "
                            "info`: reserve)",
                            info->name);
}

wh_status whi_heap_device_of(const wh_heap_options *o, int in_cuda, wh_device **device) {
    whi_forget_error();
    *device = o->device;
    if (o->device != NULL) {
        whi_device_hold(o->device);
        return WH_OK;
    }
    return wh_device_open_for(device, "auto", NULL, 0, in_cuda);
}

wh_status wh_heap_min_bytes_for(const wh_heap_options *options, uint64_t *bytes,
                                size_t options_bytes, int in_cuda) {
    if (bytes == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *bytes = 0;
    wh_heap_options o;
    wh_device *device = NULL;
    const wh_allocator_info *info = NULL;
    const whi_alloc_ops *ops = NULL;
    wh_any_options own;
    wh_status s = whi_heap_read_options(&o, options, options_bytes);
    if (s == WH_OK) {
        s = whi_heap_device_of(&o, in_cuda, &device);
    }
    if (s == WH_OK) {
        s = resolve(&o, device, &info, &ops, &own);
    }
    const uint64_t reserved = s == WH_OK ? reserved_by(&o, &own) : 0;
    if (reserved != 0) {
        wh_plan plan;
        memset(&plan, 0, sizeof plan);
        s = can_reserve(info);
        s = s == WH_OK ? whi_reserve_min_bytes(ops, device, reserved, &own, bytes) : s;
        plan.max_bytes = s == WH_BAD_ARGUMENT ? *bytes : 0;
        *bytes = s == WH_BAD_ARGUMENT ? 0 : *bytes;
        s = s == WH_HEAP_TOO_SMALL ? WH_OK : refused(s, &plan, reserved, &own);
    } else if (s == WH_OK) {
        unsigned char handle[WH_HANDLE_BYTES];
        wh_plan plan;
        memset(&plan, 0, sizeof plan);
        s = ops->plan(handle, &plan, NULL, 0, &own, wh_device_get_info(device)->n_sms);
        *bytes = plan.min_bytes;
        s = s == WH_HEAP_TOO_SMALL ? WH_OK
                                   : refused(s, &plan, 0, &own); /* that is the question asked */
    }
    wh_device_close(device);
    return s;
}

wh_status wh_heap_reset_async(wh_heap *heap, void *stream) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->init(&l, heap->handle);
}

wh_status wh_heap_reset_on(wh_heap *heap, void *stream) {
    WHI_RANGE("wh_heap_reset");
    const wh_status s = wh_heap_reset_async(heap, stream);
    return s == WH_OK ? wh_stream_sync(heap->device, stream) : s;
}

wh_status wh_heap_reset(wh_heap *heap) {
    const wh_status s = heap != NULL ? whi_heap_settle(heap) : WH_BAD_ARGUMENT;
    if (s == WH_OK) {
        whi_records_settle(heap);
    }
    return s == WH_OK ? wh_heap_reset_on(heap, NULL) : s;
}

/* A heap that maps only a part of its addresses. */
static wh_status build_reserved(wh_heap *h, uint64_t reserved) {
    wh_status s = can_reserve(h->info);
    if (s != WH_OK) {
        return s;
    }
    if (h->memory != NULL || whi_heap_has_source(h)) {
        return whi_refuse(WH_BAD_ARGUMENT, "a heap that reserves addresses has memory of its own: "
                                           "wh_heap_options.reserve_bytes excludes memory, source "
                                           "and cuda_pool");
    }
    if (reserved < h->bytes) {
        return whi_refuse(WH_BAD_ARGUMENT, "reserve_bytes is less than bytes");
    }
    s = whi_reserve_create(h, reserved);
    return s == WH_BAD_ARGUMENT ? refused(s, &h->plan, reserved, &h->options) : s;
}

wh_heap *whi_heap_new(void) {
    wh_heap *h = calloc(1, sizeof *h);
    if (h != NULL) {
        struct timespec t;
        (void)clock_gettime(CLOCK_REALTIME, &t);
        h->created_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
        h->watched = whi_watched_new(h);
    }
    if (h != NULL && h->watched == NULL) {
        free(h);
        h = NULL;
    }
    return h;
}

/* What a heap is made of: its allocator, its memory, its first state. */
static wh_status build(wh_heap *h, const wh_heap_options *o) {
    whi_forget_error();
    wh_status s = resolve(o, h->device, &h->info, &h->ops, &h->options);
    if (s != WH_OK) {
        return s;
    }
    const uint64_t reserved = reserved_by(o, &h->options);
    if (reserved != 0) {
        return build_reserved(h, reserved);
    }
    const uint32_t n_sms = wh_device_get_info(h->device)->n_sms;
    /* Before memory is taken: a heap too small costs nothing. */
    s = h->ops->plan(h->handle, &h->plan, NULL, h->bytes, &h->options, n_sms);
    s = refused(s, &h->plan, h->bytes, &h->options);
    if (s == WH_OK && h->memory == NULL) {
        s = whi_heap_take(h, &h->memory, h->bytes, NULL);
        h->owns_memory = s == WH_OK;
        if (s == WH_OUT_OF_MEMORY && !whi_heap_has_source(h)) {
            return whi_refuse(s, "the device has no %llu bytes of memory left (%llu in all)",
                              (unsigned long long)h->bytes,
                              (unsigned long long)wh_device_get_info(h->device)->memory_bytes);
        }
    }
    if (s == WH_OK) {
        s = h->ops->plan(h->handle, &h->plan, h->memory, h->bytes, &h->options, n_sms);
        s = refused(s, &h->plan, h->bytes, &h->options);
    }
    s = s == WH_OK ? whi_records_attach(h) : s;
    return s == WH_OK ? wh_heap_reset_on(h, NULL) : s;
}

wh_status wh_heap_create_for(wh_heap **heap, const wh_heap_options *options, size_t options_bytes,
                             int in_cuda) {
    WHI_RANGE("wh_heap_create");
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *heap = NULL;
    wh_heap_options o;
    wh_status s = whi_heap_read_options(&o, options, options_bytes);
    if (s != WH_OK) {
        return s;
    }
    if (o.bytes == 0) {
        return whi_refuse(WH_BAD_ARGUMENT,
                          "wh_heap_options.bytes is 0: how large is the heap to be?");
    }
    wh_heap *h = whi_heap_new();
    if (h == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    s = whi_heap_read_memory(h, &o);
    s = s == WH_OK ? whi_heap_device_of(&o, in_cuda, &h->device) : s;
    if (s == WH_OK) {
        s = build(h, &o);
    }
    if (s != WH_OK) {
        (void)wh_heap_destroy(h);
        return s;
    }
    *heap = h;
    return WH_OK;
}

wh_status wh_heap_destroy_on(wh_heap *heap, void *stream) {
    WHI_RANGE("wh_heap_destroy");
    if (heap == NULL) {
        return WH_OK;
    }
    wh_device *d = heap->device;
    wh_status s = WH_OK;
    whi_watched_end(heap->watched);
    whi_nvtx_destroy(heap);
    if (d != NULL) {
        s = whi_abi_drop(heap, stream);
        const wh_status scratch = whi_heap_give(heap, heap->scratch, SCRATCH_BYTES, stream);
        s = s == WH_OK ? scratch : s;
        const wh_status room =
            whi_heap_give(heap, heap->watch.room, heap->watch.room_bytes, stream);
        s = s == WH_OK ? room : s;
        if (heap->owns_memory) {
            const wh_status more = whi_heap_give(heap, heap->memory, heap->bytes, stream);
            s = s == WH_OK ? more : s;
        }
        const wh_status last = wh_stream_sync(d, stream);
        s = s == WH_OK ? last : s;
        whi_growth_destroy(heap);
        whi_records_drop(heap);
        if (heap->reserve != NULL) { /* unmapping waits for nobody */
            const wh_status more = whi_reserve_destroy(heap);
            s = s == WH_OK ? more : s;
        }
    }
    whi_peers_drop(heap);
    wh_device_close(d); /* if nobody else holds it */
    free(heap);
    return s;
}

wh_status wh_heap_destroy(wh_heap *heap) {
    return wh_heap_destroy_on(heap, NULL);
}

wh_status wh_heap_memory(const wh_heap *heap, void **base, uint64_t *bytes) {
    if (heap == NULL || base == NULL || bytes == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *base = heap->memory;
    *bytes = heap->bytes;
    return WH_OK;
}

wh_status wh_heap_grow(wh_heap *heap, uint64_t bytes, void *memory, int64_t *moved) {
    WHI_RANGE("wh_heap_grow");
    if (heap == NULL || moved == NULL || bytes < heap->bytes || (uintptr_t)memory % 256 != 0) {
        return WH_BAD_ARGUMENT;
    }
    if (heap->ops->grow == NULL) {
        return whi_refuse(WH_UNSUPPORTED, "heaps of %s do not grow", heap->info->name);
    }
    wh_heap next = *heap;
    next.bytes = bytes;
    next.memory = memory;
    wh_status s = whi_heap_settle(heap);
    if (s == WH_OK) { /* before memory is taken */
        s = heap->ops->grow_plan(next.handle, heap->handle, &next.plan, NULL, bytes,
                                 &heap->options);
    }
    if (s == WH_OK && memory == NULL) {
        s = whi_heap_take(heap, &next.memory, bytes, NULL);
    }
    next.owns_memory = s == WH_OK && memory == NULL;
    s = s == WH_OK ? whi_peers_open(heap, next.memory, bytes) : s;
    if (s == WH_OK) {
        s = heap->ops->grow_plan(next.handle, heap->handle, &next.plan, next.memory, bytes,
                                 &heap->options);
    }
    if (s == WH_OK) {
        s = wh_heap_reset_async(&next, NULL);
    }
    if (s == WH_OK) {
        const wh_launch l = whi_heap_launch(&next, next.plan.init_items, NULL);
        s = heap->ops->grow(&l, next.handle, heap->handle);
    }
    if (s == WH_OK) {
        s = wh_stream_sync(heap->device, NULL);
    }
    wh_heap *drop = s == WH_OK ? heap : &next; /* whose memory is not needed any more */
    if (drop->owns_memory) {
        (void)whi_heap_give(heap, drop->memory, drop->bytes, NULL);
    }
    if (s == WH_OK) {
        *heap = next;
        *moved = heap->plan.moved; /* with the heap, not before */
    }
    return s;
}

void *wh_heap_rebase(void *p, int64_t moved) {
    return p != NULL ? (unsigned char *)p + moved : NULL;
}

wh_device *wh_heap_device(const wh_heap *heap) {
    return heap != NULL ? heap->device : NULL;
}

const wh_allocator_info *wh_heap_allocator(const wh_heap *heap) {
    return heap != NULL ? heap->info : NULL;
}

/* Kernels and library fit if they are of one release, while the first number is 0: of one minor
 * release, and nothing that shapes the heap differs. */
static wh_status fits(const wh_heap *heap, const wh_handle_kind *kind) {
    if (wh_allocator_find(kind->allocator) != heap->info) {
        return whi_refuse(WH_WRONG_ALLOCATOR,
                          "the heap is one of '%s', these kernels were compiled for '%.30s': give "
                          "wh_heap_options.allocator and WH_ALLOCATOR the same name",
                          heap->info->name, kind->allocator);
    }
    const wh_target target = wh_device_get_info(heap->device)->target;
    if (target != kind->target && kind->target != WH_TARGET_ANY) {
        return whi_refuse(WH_WRONG_TARGET, "%s",
                          target == WH_TARGET_SIM
                              ? "the heap lies on the simulated device, but these kernels run on a "
                                "GPU: open \"cuda\" (the library must be built with CUDA), and "
                                "pass it in wh_heap_options.device"
                              : "the heap lies on a GPU, but these kernels run on the simulated "
                                "device: compile them with nvcc, or open the device \"sim\"");
    }
    if (kind->version / 100 != WH_VERSION / 100) {
        return whi_refuse(
            WH_WRONG_BUILD,
            "these kernels were compiled with headers of version %u.%u, the library is "
            "of %d.%d: compile them again with its headers",
            (unsigned)kind->version / 10000, (unsigned)kind->version / 100 % 100, WH_VERSION_MAJOR,
            WH_VERSION_MINOR);
    }
    if (kind->handle_bytes != heap->ops->handle_bytes ||
        (kind->layout != 0 && kind->layout != heap->ops->layout())) {
        return whi_refuse(WH_WRONG_BUILD,
                          "these kernels know another layout of the heap than the library: compile "
                          "both with the same headers and the same options (WH_HOSTILE)");
    }
    const int checks = kind->struct_bytes > offsetof(wh_handle_kind, checks) && kind->checks != 0;
    const int peers = kind->struct_bytes > offsetof(wh_handle_kind, peers) && kind->peers != 0;
    if (heap->watch.checked != 0 && !checks) {
        return whi_refuse(WH_WRONG_BUILD,
                          "the heap is checked, and these kernels are compiled without checks: "
                          "define WH_CHECKED as 1 before you include warpheap/warpheap.h, or link "
                          "warpheap::device (docs/CHECKED.md)");
    }
    if (heap->n_peers != 0 && !peers) {
        return whi_refuse(WH_WRONG_BUILD,
                          "the heap is open to kernels of other GPUs, and the atomics of these "
                          "kernels are for one GPU: define WH_PEERS as 1 before you include "
                          "warpheap/warpheap.h (docs/CUDA.md)");
    }
    return WH_OK;
}

wh_status wh_heap_copy_handle(const wh_heap *heap, const wh_handle_kind *kind, void *handle) {
    whi_forget_error();
    if (heap == NULL || kind == NULL || kind->allocator == NULL || handle == NULL ||
        (kind->struct_bytes != sizeof *kind &&
         kind->struct_bytes != offsetof(wh_handle_kind, peers) &&
         kind->struct_bytes != offsetof(wh_handle_kind, checks))) {
        return WH_BAD_ARGUMENT;
    }
    const wh_status s = fits(heap, kind);
    if (s == WH_OK) {
        memcpy(handle, heap->handle, heap->ops->handle_bytes);
    }
    return s;
}

uint64_t wh_heap_handle_bytes(const wh_heap *heap) {
    return heap != NULL ? heap->ops->handle_bytes : 0;
}

/* --- looking inside -------------------------------------------------------------- */

/* Runs an inspection on the stream, into the heap's scratch memory, and brings the result to the
 * host, where it takes the place of the question. on_stream: waits for the stream alone; else for
 * all work of the device before. */
typedef wh_status (*inspect_fn)(wh_heap *heap, const void *question, void *out, void *stream);

static wh_status inspect(wh_heap *heap, inspect_fn run, void *result, uint64_t bytes, void *stream,
                         int on_stream) {
    wh_device *d = heap->device;
    wh_status s = on_stream ? WH_OK : whi_heap_settle(heap);
    if (s == WH_OK && heap->scratch == NULL) {
        s = whi_heap_take(heap, &heap->scratch, SCRATCH_BYTES, stream);
    }
    if (s == WH_OK) {
        s = run(heap, result, heap->scratch, stream);
    }
    return s == WH_OK ? d->ops->copy_out_on(d, result, heap->scratch, bytes, stream) : s;
}

static wh_status start_stats(wh_heap *heap, const void *question, void *out, void *stream) {
    (void)question;
    wh_stats start;
    memset(&start, 0, sizeof start);
    start.struct_bytes = sizeof start;
    start.heap_bytes = heap->bytes;
    whi_reserve_lock(heap); /* a thread may map something now */
    start.metadata_bytes = heap->plan.metadata_bytes;
    whi_reserve_unlock(heap);
    /* Unless the allocator says it. */
    start.peak_bytes = start.mallocs = start.frees = WH_UNKNOWN;
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->stats(&l, heap->handle, out, &start);
}

static wh_status start_check(wh_heap *heap, const void *question, void *out, void *stream) {
    (void)question;
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->check(&l, heap->handle, out);
}

static wh_status start_left(wh_heap *heap, const void *question, void *out, void *stream) {
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->left(&l, heap->handle, out, question);
}

wh_status wh_heap_get_stats_sized(wh_heap *heap, wh_stats *stats, size_t bytes, void *stream,
                                  int on_stream) {
    WHI_RANGE("wh_heap_get_stats");
    if (heap == NULL || stats == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (bytes < offsetof(wh_stats, classes) || bytes > sizeof *stats) {
        return whi_refuse(
            WH_WRONG_BUILD,
            "a wh_stats of %zu bytes is none that this library knows (its own has %zu)", bytes,
            sizeof *stats);
    }
    if ((heap->info->caps & WH_CAP_STATS) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_stats all;
    memset(&all, 0, sizeof all);
    const wh_status s = inspect(heap, start_stats, &all, sizeof all, stream, on_stream);
    const uint64_t room = (bytes - offsetof(wh_stats, classes)) / sizeof *all.classes;
    all.struct_bytes = bytes;
    all.n_classes = all.n_classes < room ? all.n_classes : (uint32_t)room;
    memcpy(stats, &all, bytes);
    return s;
}

wh_status wh_heap_get_stats_async_sized(wh_heap *heap, wh_stats *stats, size_t bytes,
                                        void *stream) {
    if (heap == NULL || stats == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_STATS) == 0) {
        return WH_UNSUPPORTED;
    }
    return bytes < sizeof *stats ? WH_WRONG_BUILD : start_stats(heap, NULL, stats, stream);
}

static wh_status check(wh_heap *heap, wh_report *report, void *stream, int on_stream) {
    WHI_RANGE("wh_heap_check");
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_CHECK) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_report r;
    memset(&r, 0, sizeof r);
    const wh_status s = inspect(heap, start_check, &r, sizeof r, stream, on_stream);
    if (report != NULL) {
        *report = r;
    }
    return s == WH_OK && r.errors != 0 ? WH_CORRUPT : s;
}

wh_status wh_heap_check(wh_heap *heap, wh_report *report) {
    return check(heap, report, NULL, 0);
}

wh_status wh_heap_check_on(wh_heap *heap, wh_report *report, void *stream) {
    return check(heap, report, stream, 1);
}

wh_status wh_heap_check_async(wh_heap *heap, wh_report *report, void *stream) {
    if (heap == NULL || report == NULL) {
        return WH_BAD_ARGUMENT;
    }
    return (heap->info->caps & WH_CAP_CHECK) != 0 ? start_check(heap, NULL, report, stream)
                                                  : WH_UNSUPPORTED;
}

static wh_status start_blocks(wh_heap *heap, const void *question, void *out, void *stream) {
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->check_blocks(&l, heap->handle, out, *(const uint64_t *)question);
}

wh_status wh_heap_check_blocks(wh_heap *heap, int with_leaks, uint64_t *found) {
    WHI_RANGE("wh_heap_check_blocks");
    whi_forget_error();
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (heap->watch.checked == 0) {
        return whi_refuse(WH_UNSUPPORTED, "the heap is not checked: create it with the option "
                                          "tessera.checked");
    }
    uint64_t n = with_leaks != 0;
    const wh_status s = inspect(heap, start_blocks, &n, sizeof n, NULL, 0);
    if (found != NULL) {
        *found = s == WH_OK ? n : 0;
    }
    return s;
}

/* --- compaction ------------------------------------------------------------------- */

static wh_status start_compact(wh_heap *heap, const void *question, void *out, void *stream) {
    (void)question;
    const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
    return heap->ops->compact(&l, heap->handle, out);
}

static wh_status compact(wh_heap *heap, wh_compaction *done, void *stream, int on_stream) {
    WHI_RANGE("wh_heap_compact");
    const wh_compaction nothing = {0, 0, 0, 0};
    wh_compaction c = nothing;
    whi_forget_error();
    if (done != NULL) {
        *done = nothing;
    }
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_COMPACT) == 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "heaps of %s have no queues of free blocks to compact (`warpheap info`: "
                          "compact)",
                          heap->info->name);
    }
    const wh_status s = inspect(heap, start_compact, &c, sizeof c, stream, on_stream);
    if (s == WH_OK && done != NULL) {
        *done = c;
    }
    return s;
}

wh_status wh_heap_compact(wh_heap *heap, wh_compaction *done) {
    return compact(heap, done, NULL, 0);
}

wh_status wh_heap_compact_on(wh_heap *heap, wh_compaction *done, void *stream) {
    return compact(heap, done, stream, 1);
}

/* --- walk ------------------------------------------------------------------------- */

/* One walk into room for `capacity` entries. *entries: what was found, if all fitted. */
static wh_status walk_once(wh_heap *heap, uint64_t capacity, wh_walk_sink *sink,
                           struct wh_walk_entry **entries, void *stream) {
    wh_device *d = heap->device;
    void *room = NULL; /* the sink, and the entries behind it */
    const uint64_t bytes = sizeof *sink + capacity * sizeof **entries;
    wh_status s = whi_heap_take(heap, &room, bytes, stream);
    if (s == WH_OK) {
        const wh_launch l = whi_heap_launch(heap, heap->plan.init_items, stream);
        s = heap->ops->walk(&l, heap->handle, room, capacity);
    }
    if (s == WH_OK) {
        s = d->ops->copy_out_on(d, sink, room, sizeof *sink, stream);
    }
    if (s == WH_OK && sink->n <= capacity) {
        *entries = malloc((size_t)capacity * sizeof **entries);
        s = *entries != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    }
    if (s == WH_OK && *entries != NULL) {
        s = d->ops->copy_out_on(d, *entries, (unsigned char *)room + sizeof *sink,
                                sink->n * sizeof **entries, stream);
    }
    (void)whi_heap_give(heap, room, bytes, stream);
    return s;
}

wh_status wh_heap_walk_on(wh_heap *heap, wh_visit_fn visit, void *context, void *stream) {
    WHI_RANGE("wh_heap_walk");
    if (heap == NULL || visit == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_WALK) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_walk_sink sink;
    struct wh_walk_entry *entries = NULL;
    wh_status s = walk_once(heap, 1024, &sink, &entries, stream);
    if (s == WH_OK && entries == NULL) { /* too many: now their number is known */
        s = walk_once(heap, sink.n, &sink, &entries, stream);
    }
    for (uint64_t i = 0; s == WH_OK && entries != NULL && i < sink.n; i++) {
        if (visit(context, (void *)(uintptr_t)entries[i].address, entries[i].usable_bytes)) {
            break;
        }
    }
    free(entries);
    return s;
}

wh_status wh_heap_walk(wh_heap *heap, wh_visit_fn visit, void *context) {
    const wh_status s = heap != NULL ? whi_heap_settle(heap) : WH_BAD_ARGUMENT;
    return s == WH_OK ? wh_heap_walk_on(heap, visit, context, NULL) : s;
}

static wh_status blocks_left(wh_heap *heap, uint64_t bytes, uint64_t *blocks, void *stream,
                             int on_stream) {
    WHI_RANGE("wh_heap_blocks_left");
    if (heap == NULL || blocks == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_LEFT) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_left_query q = {bytes, 0};
    const wh_status s = inspect(heap, start_left, &q, sizeof q, stream, on_stream);
    *blocks = s == WH_OK ? q.blocks : 0;
    return s;
}

wh_status wh_heap_blocks_left(wh_heap *heap, uint64_t bytes, uint64_t *blocks) {
    return blocks_left(heap, bytes, blocks, NULL, 0);
}

wh_status wh_heap_blocks_left_on(wh_heap *heap, uint64_t bytes, uint64_t *blocks, void *stream) {
    return blocks_left(heap, bytes, blocks, stream, 1);
}
