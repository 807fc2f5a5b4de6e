/* image.c: heaps as files have them (image.h). */
#include "image.h"

#include <stdlib.h>
#include <string.h>

#include "heap_internal.h"
#include "last_error.h"
#include "try.h"

static wh_status cannot_save(const wh_allocator_info *info) {
    return whi_refuse(WH_UNSUPPORTED, "heaps of %s are not saved and loaded", info->name);
}

static wh_status make_room(whi_image *im) {
    im->n_live = (im->facts.shape.n_chunks + 63) / 64;
    im->n_units = im->facts.is_reserved != 0 ? (im->facts.plan.n_units + (uint64_t)63) / 64 : 0;
    im->live = calloc((size_t)im->n_live + 1, 8);
    im->units = calloc((size_t)im->n_units + 1, 8);
    return im->live != NULL && im->units != NULL ? WH_OK : WH_OUT_OF_MEMORY;
}

void whi_image_drop(whi_image *im) {
    free(im->live);
    free(im->units);
    im->live = im->units = NULL;
}

/* --- of a heap ------------------------------------------------------------------------------- */

static wh_status find_live(whi_image *im, wh_heap *h) {
    wh_device *d = h->device;
    void *bits = NULL;
    TRY(whi_heap_take(h, &bits, im->n_live * 8, NULL));
    wh_status s = wh_device_set(d, bits, 0, im->n_live * 8);
    if (s == WH_OK) {
        const wh_launch l = whi_heap_launch(h, h->plan.init_items, NULL);
        s = h->ops->live(&l, h->handle, bits);
    }
    s = s == WH_OK ? wh_device_copy_out(d, im->live, bits, im->n_live * 8) : s;
    const wh_status last = whi_heap_give(h, bits, im->n_live * 8, NULL);
    return s == WH_OK ? last : s;
}

wh_status whi_image_take(whi_image *im, wh_heap *h) {
    whi_image_facts *f = &im->facts;
    memset(im, 0, sizeof *im);
    if (h->ops->live == NULL) {
        return cannot_save(h->info);
    }
    if (h->watch.checked != 0) {
        return whi_refuse(WH_UNSUPPORTED,
                          "a checked heap is not saved: its blocks hold addresses of "
                          "this program (docs/CHECKED.md)");
    }
    TRY(whi_heap_settle(h));
    im->info = h->info;
    f->layout = h->ops->layout();
    f->target = wh_device_get_info(h->device)->target;
    f->n_sms = wh_device_get_info(h->device)->n_sms;
    f->bytes = h->bytes;
    f->memory = (uint64_t)(uintptr_t)h->memory;
    f->is_reserved = h->reserve != NULL;
    memcpy(f->options, h->options.values, sizeof f->options);
    h->ops->image_of(h->handle, &f->shape);
    if (h->reserve != NULL) {
        whi_reserve_look(h, &f->plan, NULL);
        f->n_sms = h->laid_out_for != 0 ? h->laid_out_for : f->n_sms;
    }
    TRY(make_room(im));
    if (h->reserve != NULL) {
        TRY(whi_growth_settle(h));
        whi_reserve_look(h, &f->plan, im->units);
    }
    return find_live(im, h);
}

/* --- the bytes -------------------------------------------------------------------------------- */

/* The granules of the side part that units of the image need, and the first one. */
static wh_status each_side(const whi_image *im, unsigned char *memory, whi_bytes_fn fn,
                           void *context) {
    const wh_reserve_plan *p = &im->facts.plan;
    uint64_t done = 0; /* granules below it */
    for (uint64_t u = 0; u < p->n_units; u++) {
        const int is_there = (im->units[u / 64] >> u % 64 & 1) != 0;
        uint64_t k = u * p->side_of_unit / p->granule;
        uint64_t end = ((u + 1) * p->side_of_unit + p->granule - 1) / p->granule;
        end = is_there ? end : 1;
        for (k = k > done && is_there ? k : done; k < end; k++) {
            TRY(fn(context, memory + p->fixed_bytes + k * p->granule, p->granule));
            done = k + 1;
        }
    }
    return WH_OK;
}

/* The first chunk from k on whose bit is `bit`; n: none. */
static uint64_t next_chunk(const whi_image *im, uint64_t k, uint64_t bit) {
    const uint64_t n = im->facts.shape.n_chunks;
    while (k < n && (im->live[k / 64] >> k % 64 & 1) != bit) {
        const uint64_t none = bit != 0 ? 0 : ~(uint64_t)0;
        k += k % 64 == 0 && im->live[k / 64] == none ? 64 : 1;
    }
    return k < n ? k : n;
}

/* Whether the units of chunks [k, end) are mapped: what a damaged file says may be wrong. */
static int are_there(const whi_image *im, uint64_t k, uint64_t end) {
    const uint64_t of_unit = im->facts.plan.unit_bytes / im->facts.shape.chunk_bytes;
    int all = 1;
    for (uint64_t u = k / of_unit; u <= (end - 1) / of_unit; u++) {
        all &= (int)(im->units[u / 64] >> u % 64 & 1);
    }
    return all;
}

wh_status whi_image_each(const whi_image *im, const wh_heap *h, whi_bytes_fn fn, void *context) {
    const wh_reserve_plan *p = &im->facts.plan;
    unsigned char *memory = h->memory;
    wh_image_shape shape;
    h->ops->image_of(h->handle, &shape);
    if (h->reserve != NULL) {
        TRY(fn(context, memory, p->fixed_bytes));
        TRY(each_side(im, memory, fn, context));
    } else {
        TRY(fn(context, memory, shape.metadata_bytes));
    }
    unsigned char *base = memory + (shape.base - (uint64_t)(uintptr_t)memory);
    for (uint64_t k = next_chunk(im, 0, 1), end; k < shape.n_chunks; k = next_chunk(im, end, 1)) {
        end = next_chunk(im, k, 0);
        TRY(h->reserve == NULL || are_there(im, k, end) ? WH_OK : WH_BAD_FORMAT);
        TRY(fn(context, base + k * shape.chunk_bytes, (end - k) * shape.chunk_bytes));
    }
    return WH_OK;
}

/* --- a heap of an image ------------------------------------------------------------------------
 */

wh_status whi_image_read(whi_image *im, const char *allocator, const whi_image_facts *facts) {
    memset(im, 0, sizeof *im);
    im->facts = *facts;
    im->info = wh_allocator_find(allocator);
    if (im->info == NULL) {
        return whi_refuse(WH_UNKNOWN_ALLOCATOR, "it holds a heap of '%.30s', which is not built in",
                          allocator);
    }
    const whi_alloc_ops *ops = whi_alloc_ops_find(
        im->info->name, facts->target == WH_TARGET_CUDA ? WH_TARGET_CUDA : WH_TARGET_SIM);
    if (ops == NULL) {
        return whi_refuse(WH_WRONG_TARGET, "it holds a heap of a GPU, and this library is built "
                                           "without CUDA");
    }
    if (ops->live == NULL) {
        return cannot_save(im->info);
    }
    if (facts->layout != ops->layout()) {
        return whi_refuse(WH_WRONG_BUILD,
                          "it holds a heap of another layout than this library's: another version, "
                          "or a hostile build against a release");
    }
    /* No file of ours is beyond this, whatever its checksum says. */
    if (facts->shape.n_chunks == 0 || facts->shape.n_chunks >> 32 != 0 || facts->n_sms == 0 ||
        facts->n_sms >> 32 != 0 || (facts->is_reserved != 0 && facts->plan.granule == 0)) {
        return WH_BAD_FORMAT;
    }
    return make_room(im);
}

static wh_status take_memory(wh_heap *h, const whi_image *im) {
    const wh_image_shape *shape = &im->facts.shape;
    const uint32_t n_sms = wh_device_get_info(h->device)->n_sms;
    wh_status s = WH_HEAP_TOO_SMALL;
    if (h->memory != NULL) {
        s = h->ops->image_plan(h->handle, &h->plan, shape, h->memory, h->bytes, n_sms);
        return s != WH_HEAP_TOO_SMALL
                   ? s
                   : whi_refuse(s,
                                "the saved heap does not fit into wh_heap_options.memory of %llu "
                                "bytes: with %llu it does, wherever they lie",
                                (unsigned long long)h->bytes,
                                (unsigned long long)h->plan.min_bytes);
    }
    h->bytes = im->facts.bytes;
    for (uint32_t turn = 0; turn < 2 && s == WH_HEAP_TOO_SMALL; turn++) {
        if (h->owns_memory) { /* what it is aligned to costs more here than where it was */
            h->owns_memory = 0;
            TRY(whi_heap_give(h, h->memory, h->bytes, NULL));
            h->bytes = h->plan.min_bytes;
        }
        h->memory = NULL;
        s = whi_heap_take(h, &h->memory, h->bytes, NULL);
        h->owns_memory = s == WH_OK;
        if (s == WH_OK) {
            s = h->ops->image_plan(h->handle, &h->plan, shape, h->memory, h->bytes, n_sms);
        }
    }
    return s;
}

static wh_status take_reserve(wh_heap *h, const whi_image *im) {
    const whi_image_facts *f = &im->facts;
    wh_image_shape shape;
    if (h->memory != NULL || whi_heap_has_source(h)) {
        return whi_refuse(WH_BAD_ARGUMENT, "the saved heap reserves addresses, and takes no "
                                           "wh_heap_options.memory, source or cuda_pool");
    }
    h->bytes = f->bytes;
    h->laid_out_for = (uint32_t)f->n_sms;
    TRY(whi_reserve_restore(h, &f->plan, im->units, (uint32_t)f->n_sms,
                            (void *)(uintptr_t)f->memory));
    h->ops->image_of(h->handle, &shape);
    shape.base = f->shape.base;
    return memcmp(&shape, &f->shape, sizeof shape) == 0 ? WH_OK : WH_BAD_FORMAT;
}

static wh_status build(wh_heap *h, const whi_image *im) {
    const wh_target target = wh_device_get_info(h->device)->target;
    if (im->facts.target != target) {
        return whi_refuse(WH_WRONG_TARGET, "the saved heap lay on %s, the device is %s",
                          target == WH_TARGET_SIM ? "a GPU" : "the simulated device",
                          target == WH_TARGET_SIM ? "simulated" : "a GPU");
    }
    h->info = im->info;
    h->ops = whi_alloc_ops_find(im->info->name, target);
    TRY(whi_options_read(&h->options, NULL, h->info));
    memcpy(h->options.values, im->facts.options, sizeof h->options.values);
    wh_status s = im->facts.is_reserved != 0 ? take_reserve(h, im) : take_memory(h, im);
    s = s == WH_OK && h->reserve == NULL ? whi_records_attach(h) : s;
    if (s == WH_OUT_OF_MEMORY && !whi_heap_has_source(h)) {
        return whi_refuse(s, "the device has no %llu bytes of memory or addresses left",
                          (unsigned long long)h->bytes);
    }
    return s == WH_BAD_ARGUMENT && wh_last_error_text()[0] == '\0' ? WH_BAD_FORMAT : s;
}

/* What the caller's options say of the heap must be so. */
static wh_status takes(const wh_heap_options *o, const whi_image *im) {
    if (o->allocator != NULL && wh_allocator_find(o->allocator) != im->info) {
        return whi_refuse(WH_WRONG_ALLOCATOR, "it holds a heap of '%s', not of '%.30s'",
                          im->info->name, o->allocator);
    }
    return WH_OK;
}

wh_status whi_image_create(wh_heap **heap, const whi_image *im, const wh_heap_options *options,
                           size_t options_bytes, int in_cuda) {
    wh_heap_options o;
    memset(&o, 0, sizeof o);
    *heap = NULL;
    if (options != NULL) {
        TRY(whi_heap_read_options(&o, options, options_bytes));
    }
    TRY(takes(&o, im));
    wh_heap *h = whi_heap_new();
    if (h == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    wh_status s = whi_heap_read_memory(h, &o);
    s = s == WH_OK ? whi_heap_device_of(&o, in_cuda, &h->device) : s;
    s = s == WH_OK ? build(h, im) : s;
    s = s == WH_OK ? wh_device_sync(h->device) : s;
    if (s != WH_OK) {
        (void)wh_heap_destroy(h);
        return s;
    }
    *heap = h;
    return WH_OK;
}

wh_status whi_image_adopt(wh_heap *h, const whi_image *im, int64_t *moved) {
    const wh_launch l = whi_heap_launch(h, 1, NULL);
    wh_image_shape shape;
    TRY(h->ops->adopt(&l, h->handle));
    TRY(h->reserve != NULL ? whi_reserve_restored(h) : wh_device_sync(h->device));
    h->ops->image_of(h->handle, &shape);
    h->plan.moved = (int64_t)(shape.base - im->facts.shape.base);
    *moved = h->plan.moved;
    return WH_OK;
}
