/* heap.c: the host's calls on heaps, and the table of allocators. */
#include "warpheap/heap.h"

#include <stdlib.h>
#include <string.h>

#include "alloc_ops.h"
#include "warpheap/alloc/list.h"

struct wh_heap {
    const wh_allocator_info *info;
    const whi_alloc_ops *ops;
    wh_device *device;
    int owns_device;
    int owns_memory;
    void *memory;
    uint64_t bytes;
    wh_tuning tuning;
    wh_plan plan;
    unsigned char handle[WH_HANDLE_BYTES];
};

typedef struct allocator_entry {
    wh_allocator_info info;
    const whi_alloc_ops *sim;
    const whi_alloc_ops *cuda;
} allocator_entry;

/* The tables that exist: on the simulator those with WH_CAP_SIM, on the GPU every one.
 * The unused branch of SIM_OPS is folded away, so a table that is not there is not
 * referred to. */
#define DECLARE_OPS(ident, family, name, title, source, caps, max_align, max_size) \
    extern const whi_alloc_ops wh_alloc_ops_##ident##_sim;                         \
    extern const whi_alloc_ops wh_alloc_ops_##ident##_cuda;
WH_ALLOC_LIST(DECLARE_OPS)
#undef DECLARE_OPS
#define SIM_OPS(ident, caps) (((caps)&WH_CAP_SIM) != 0 ? &wh_alloc_ops_##ident##_sim : NULL)
#if WH_HAVE_CUDA
#define CUDA_OPS(ident) &wh_alloc_ops_##ident##_cuda
#else
#define CUDA_OPS(ident) NULL
#endif

static const allocator_entry allocators[] = {
#define ENTRY(ident, family, name, title, source, caps, max_align, max_size) \
    {{name, title, source, caps, max_align, max_size}, SIM_OPS(ident, caps), CUDA_OPS(ident)},
    WH_ALLOC_LIST(ENTRY)
#undef ENTRY
};

#define N_ALLOCATORS (sizeof allocators / sizeof *allocators)

const wh_allocator_info *wh_allocator_at(uint32_t index) {
    return index < N_ALLOCATORS ? &allocators[index].info : NULL;
}

static const allocator_entry *find_entry(const char *name) {
    if (name == NULL || strcmp(name, "default") == 0) {
        name = WH_DEFAULT_ALLOCATOR;
    }
    for (size_t i = 0; i < N_ALLOCATORS; i++) {
        if (strcmp(allocators[i].info.name, name) == 0) {
            return &allocators[i];
        }
    }
    return NULL;
}

const wh_allocator_info *wh_allocator_find(const char *name) {
    const allocator_entry *e = find_entry(name);
    return e != NULL ? &e->info : NULL;
}

/* Resolves the allocator and the device of the options. */
static wh_status resolve(const wh_heap_options *o, const allocator_entry **entry,
                         const whi_alloc_ops **ops, wh_device *device) {
    *entry = find_entry(o->allocator);
    if (*entry == NULL) {
        return WH_UNKNOWN_ALLOCATOR;
    }
    const wh_target target = wh_device_get_info(device)->target;
    *ops = target == WH_TARGET_SIM ? (*entry)->sim : (*entry)->cuda;
    return *ops != NULL ? WH_OK : WH_UNSUPPORTED;
}

wh_status wh_heap_min_bytes(const wh_heap_options *options, uint64_t *bytes) {
    if (options == NULL || bytes == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *bytes = 0;
    wh_device *device = options->device;
    wh_status s = device != NULL ? WH_OK : wh_device_open(&device, "auto", NULL);
    const allocator_entry *entry = NULL;
    const whi_alloc_ops *ops = NULL;
    if (s == WH_OK) {
        s = resolve(options, &entry, &ops, device);
    }
    if (s == WH_OK) {
        unsigned char handle[WH_HANDLE_BYTES];
        wh_plan plan;
        memset(&plan, 0, sizeof plan);
        s = ops->plan(handle, &plan, NULL, 0, &options->tuning, wh_device_get_info(device)->n_sms);
        *bytes = plan.min_bytes;
        s = s == WH_HEAP_TOO_SMALL ? WH_OK : s; /* that is the question asked */
    }
    if (options->device == NULL) {
        wh_device_close(device);
    }
    return s;
}

/* A launch that gives each thread a few of n items. */
static wh_launch launch_for(const wh_heap *h, uint64_t items) {
    const uint64_t threads = h->device != NULL && items < 256 ? 32 : 256;
    uint64_t blocks = (items + threads - 1) / threads;
    const uint64_t most = (uint64_t)wh_device_get_info(h->device)->n_sms * 16;
    blocks = blocks < 1 ? 1 : blocks > most ? most : blocks;
    const wh_launch l = {h->device, (uint32_t)blocks, (uint32_t)threads, NULL};
    return l;
}

wh_status wh_heap_reset_async(wh_heap *heap) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    const wh_launch l = launch_for(heap, heap->plan.init_items);
    return heap->ops->init(&l, heap->handle);
}

wh_status wh_heap_reset(wh_heap *heap) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    wh_status s = wh_device_sync(heap->device);
    if (s == WH_OK) {
        s = wh_heap_reset_async(heap);
    }
    return s == WH_OK ? wh_device_sync(heap->device) : s;
}

wh_status wh_heap_create(wh_heap **heap, const wh_heap_options *options) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *heap = NULL;
    if (options == NULL || options->bytes == 0 || (uintptr_t)options->memory % 256 != 0) {
        return WH_BAD_ARGUMENT;
    }
    wh_heap *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    h->device = options->device;
    h->bytes = options->bytes;
    h->memory = options->memory;
    h->tuning = options->tuning;
    wh_status s = WH_OK;
    if (h->device == NULL) {
        s = wh_device_open(&h->device, "auto", NULL);
        h->owns_device = s == WH_OK;
    }
    const allocator_entry *entry = NULL;
    if (s == WH_OK) {
        s = resolve(options, &entry, &h->ops, h->device);
    }
    if (s == WH_OK) { /* before memory is taken: a heap too small costs nothing */
        s = h->ops->plan(h->handle, &h->plan, NULL, h->bytes, &options->tuning,
                         wh_device_get_info(h->device)->n_sms);
    }
    if (s == WH_OK && h->memory == NULL) {
        s = wh_device_alloc(h->device, &h->memory, h->bytes);
        h->owns_memory = s == WH_OK;
    }
    if (s == WH_OK) {
        h->info = &entry->info;
        s = h->ops->plan(h->handle, &h->plan, h->memory, h->bytes, &options->tuning,
                         wh_device_get_info(h->device)->n_sms);
    }
    if (s == WH_OK) {
        s = wh_heap_reset(h);
    }
    if (s != WH_OK) {
        wh_heap_destroy(h);
        return s;
    }
    *heap = h;
    return WH_OK;
}

void wh_heap_destroy(wh_heap *heap) {
    if (heap == NULL) {
        return;
    }
    if (heap->device != NULL) { /* kernels may be at work in the caller's memory, too */
        (void)wh_device_sync(heap->device);
    }
    if (heap->owns_memory) {
        (void)wh_device_free(heap->device, heap->memory);
    }
    if (heap->owns_device) {
        wh_device_close(heap->device);
    }
    free(heap);
}

wh_status wh_heap_grow(wh_heap *heap, uint64_t bytes, void *memory, int64_t *moved) {
    if (heap == NULL || moved == NULL || bytes < heap->bytes || (uintptr_t)memory % 256 != 0) {
        return WH_BAD_ARGUMENT;
    }
    if (heap->ops->grow == NULL) {
        return WH_UNSUPPORTED;
    }
    wh_heap next = *heap;
    int64_t by = 0; /* *moved changes with the heap, not before */
    next.bytes = bytes;
    next.memory = memory;
    wh_status s = wh_device_sync(heap->device);
    if (s == WH_OK) { /* before memory is taken */
        s = heap->ops->grow_plan(next.handle, heap->handle, &next.plan, NULL, bytes, &heap->tuning,
                                 &by);
    }
    if (s == WH_OK && memory == NULL) {
        s = wh_device_alloc(heap->device, &next.memory, bytes);
    }
    next.owns_memory = s == WH_OK && memory == NULL;
    if (s == WH_OK) {
        s = heap->ops->grow_plan(next.handle, heap->handle, &next.plan, next.memory, bytes,
                                 &heap->tuning, &by);
    }
    if (s == WH_OK) {
        s = wh_heap_reset(&next);
    }
    if (s == WH_OK) {
        const wh_launch l = launch_for(&next, next.plan.init_items);
        s = heap->ops->grow(&l, next.handle, heap->handle);
    }
    if (s == WH_OK) {
        s = wh_device_sync(heap->device);
    }
    wh_heap *drop = s == WH_OK ? heap : &next; /* whose memory is not needed any more */
    if (drop->owns_memory) {
        (void)wh_device_free(heap->device, drop->memory);
    }
    if (s == WH_OK) {
        *heap = next;
        *moved = by;
    }
    return s;
}

void *wh_heap_rebase(void *p, int64_t moved) {
    return p != NULL ? (unsigned char *)p + moved : NULL;
}

wh_device *wh_heap_device(const wh_heap *heap) {
    return heap->device;
}

wh_status wh_heap_copy_handle(const wh_heap *heap, const char *allocator, void *handle,
                              size_t handle_bytes) {
    if (heap == NULL || allocator == NULL || handle == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (strcmp(heap->info->name, allocator) != 0 || handle_bytes != heap->ops->handle_bytes) {
        return WH_WRONG_ALLOCATOR;
    }
    memcpy(handle, heap->handle, handle_bytes);
    return WH_OK;
}

/* Runs one inspection kernel over `bytes` of zeroed device memory and copies the
 * result out. */
typedef wh_status (*inspect_fn)(const wh_heap *heap, const wh_launch *launch, void *out);

static wh_status inspect(wh_heap *heap, inspect_fn run, void *result, uint64_t bytes) {
    void *out = NULL;
    wh_status s = wh_device_sync(heap->device);
    if (s == WH_OK) {
        s = wh_device_alloc(heap->device, &out, bytes);
    }
    if (s == WH_OK) {
        s = wh_device_copy_in(heap->device, out, result, bytes);
    }
    if (s == WH_OK) {
        const wh_launch l = launch_for(heap, heap->plan.init_items);
        s = run(heap, &l, out);
    }
    if (s == WH_OK) {
        s = wh_device_sync(heap->device);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(heap->device, result, out, bytes);
    }
    (void)wh_device_free(heap->device, out);
    return s;
}

static wh_status run_stats(const wh_heap *heap, const wh_launch *l, void *out) {
    return heap->ops->stats(l, heap->handle, out);
}

static wh_status run_check(const wh_heap *heap, const wh_launch *l, void *out) {
    return heap->ops->check(l, heap->handle, out);
}

wh_status wh_heap_get_stats(wh_heap *heap, wh_stats *stats) {
    if (heap == NULL || stats == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_STATS) == 0) {
        return WH_UNSUPPORTED;
    }
    memset(stats, 0, sizeof *stats);
    /* Unless the allocator says it. */
    stats->peak_bytes = stats->mallocs = stats->frees = WH_UNKNOWN;
    const wh_status s = inspect(heap, run_stats, stats, sizeof *stats);
    stats->heap_bytes = heap->bytes;
    stats->metadata_bytes = heap->plan.metadata_bytes;
    return s;
}

wh_status wh_heap_check(wh_heap *heap, wh_report *report) {
    if (heap == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_CHECK) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_report r;
    memset(&r, 0, sizeof r);
    const wh_status s = inspect(heap, run_check, &r, sizeof r);
    if (report != NULL) {
        *report = r;
    }
    return s == WH_OK && r.errors != 0 ? WH_CORRUPT : s;
}

/* Room for `capacity` entries behind the sink, in one piece of device memory. */
static wh_status walk_once(wh_heap *heap, uint64_t capacity, wh_walk_sink *sink,
                           struct wh_walk_entry **entries) {
    void *device_sink = NULL, *device_entries = NULL;
    wh_status s = wh_device_alloc(heap->device, &device_sink, sizeof *sink);
    if (s == WH_OK) {
        s = wh_device_alloc(heap->device, &device_entries, capacity * sizeof **entries);
    }
    sink->capacity = capacity;
    sink->n = 0;
    sink->entries = device_entries;
    if (s == WH_OK) {
        s = wh_device_copy_in(heap->device, device_sink, sink, sizeof *sink);
    }
    if (s == WH_OK) {
        const wh_launch l = launch_for(heap, heap->plan.init_items);
        s = heap->ops->walk(&l, heap->handle, device_sink);
    }
    if (s == WH_OK) {
        s = wh_device_sync(heap->device);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(heap->device, sink, device_sink, sizeof *sink);
    }
    if (s == WH_OK && sink->n <= capacity) {
        *entries = malloc((size_t)capacity * sizeof **entries);
        s = *entries != NULL ? WH_OK : WH_OUT_OF_MEMORY;
        if (s == WH_OK) {
            s = wh_device_copy_out(heap->device, *entries, device_entries,
                                   sink->n * sizeof **entries);
        }
    }
    (void)wh_device_free(heap->device, device_sink);
    (void)wh_device_free(heap->device, device_entries);
    return s;
}

wh_status wh_heap_walk(wh_heap *heap, wh_visit_fn visit, void *context) {
    if (heap == NULL || visit == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if ((heap->info->caps & WH_CAP_WALK) == 0) {
        return WH_UNSUPPORTED;
    }
    wh_walk_sink sink;
    struct wh_walk_entry *entries = NULL;
    wh_status s = wh_device_sync(heap->device);
    if (s == WH_OK) {
        s = walk_once(heap, 1024, &sink, &entries);
    }
    if (s == WH_OK && entries == NULL) { /* too many: now their number is known */
        s = walk_once(heap, sink.n, &sink, &entries);
    }
    for (uint64_t i = 0; s == WH_OK && i < sink.n; i++) {
        if (visit(context, (void *)(uintptr_t)entries[i].address, entries[i].usable_bytes)) {
            break;
        }
    }
    free(entries);
    return s;
}

static wh_status run_left(const wh_heap *heap, const wh_launch *l, void *out) {
    return heap->ops->left(l, heap->handle, out);
}

wh_status wh_heap_blocks_left(wh_heap *heap, uint64_t bytes, uint64_t *blocks) {
    if (heap == NULL || blocks == NULL) {
        return WH_BAD_ARGUMENT;
    }
    if (heap->ops->left == NULL) {
        return WH_UNSUPPORTED;
    }
    wh_left_query q = {bytes, 0};
    const wh_status s = inspect(heap, run_left, &q, sizeof q);
    *blocks = s == WH_OK ? q.blocks : 0;
    return s;
}
