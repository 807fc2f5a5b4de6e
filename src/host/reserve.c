/* reserve.c: heaps in reserved address space: what of it is mapped, extend and trim.
 *
 * The addresses are cut into units (contract.h), which the device maps one by one. A unit is
 *   ABSENT   not mapped
 *   SPARE    mapped, and not the heap's: an extend that failed could not undo it, or a trim's
 *            unmap failed and the unit could not be published again. The next extend uses it
 *   FRESH    the same, for as long as a call that has just mapped it goes on
 *   POSTED   mapped, and offered to kernels, which may have taken it (growth.c)
 *   THERE    the heap's
 * The side part, the metadata that a unit needs, is mapped by granules while a unit needs them.
 *
 * extend maps first, and publishes what it has mapped: so a call that fails half-way has only to
 * unmap what nobody knows of. trim withdraws first, and unmaps: what cannot be unmapped is
 * published again.
 *
 * One host thread at a time is in extend or trim of a heap: the others wait for its lock. */
#include "reserve.h"

#include <stdlib.h>
#include <string.h>

#include "last_error.h"
#include "try.h"

uint64_t whi_reserve_mapped(const whi_reserve *r) {
    return (r->fixed_there ? r->plan.fixed_bytes : 0) + r->n_sides * r->plan.granule +
           r->n_mapped * r->plan.unit_bytes;
}

static void *address(const wh_heap *h, uint64_t offset) {
    return (unsigned char *)h->memory + offset;
}

/* The granules of the side part that units [first, end) need: [*from, the returned one). */
static uint32_t sides_of(const wh_reserve_plan *p, uint32_t first, uint32_t end, uint32_t *from) {
    *from = (uint32_t)(first * p->side_of_unit / p->granule);
    return (uint32_t)((end * p->side_of_unit + p->granule - 1) / p->granule);
}

uint64_t whi_reserve_mapped_with(const whi_reserve *r, uint32_t first, uint32_t end) {
    uint64_t bytes = whi_reserve_mapped(r);
    uint32_t k;
    for (const uint32_t last = sides_of(&r->plan, first, end, &k); k < last; k++) {
        bytes += r->sides[k] ? 0 : r->plan.granule;
    }
    for (uint32_t u = first; u < end; u++) {
        bytes += r->units[u] == ABSENT ? r->plan.unit_bytes : 0;
    }
    return bytes;
}

uint64_t whi_reserve_metadata(const whi_reserve *r) {
    return whi_reserve_mapped(r) - r->n_mapped * r->plan.unit_bytes;
}

/* --- mapping -------------------------------------------------------------------------------- */

/* Memory for the heap's kernels, wherever they run. */
static wh_status map_for_all(const wh_heap *h, void *at, uint64_t bytes, uint64_t piece) {
    const whi_device_ops *ops = h->device->ops;
    TRY(ops->map(h->device, at, bytes, piece));
    wh_status s = WH_OK;
    for (uint32_t i = 0; i < h->n_peers && ops->peer_share != NULL && s == WH_OK; i++) {
        s = ops->peer_share(h->device, h->peers[i], at, bytes);
    }
    if (s != WH_OK) {
        (void)ops->unmap(h->device, at, bytes, piece);
    }
    return s;
}

static wh_status map_side(wh_heap *h, uint32_t k) {
    whi_reserve *r = h->reserve;
    const uint64_t granule = r->plan.granule;
    if (r->sides[k]) {
        return WH_OK;
    }
    const wh_status s =
        map_for_all(h, address(h, r->plan.fixed_bytes + k * granule), granule, granule);
    r->sides[k] = s == WH_OK;
    r->n_sides += s == WH_OK;
    return s;
}

/* Gives granules back that no unit needs, down to `keep` bytes in all. */
static wh_status drop_sides(wh_heap *h, uint32_t first, uint32_t end, uint64_t keep) {
    whi_reserve *r = h->reserve;
    const uint64_t granule = r->plan.granule;
    wh_status s = WH_OK;
    for (uint32_t k = first; k < end; k++) {
        if (!r->sides[k] || r->side_users[k] != 0 || whi_reserve_mapped(r) < keep + granule) {
            continue;
        }
        const wh_status its = h->device->ops->unmap(
            h->device, address(h, r->plan.fixed_bytes + k * granule), granule, granule);
        r->sides[k] = its != WH_OK;
        r->n_sides -= its == WH_OK;
        s = s == WH_OK ? its : s;
    }
    return s;
}

static void use_sides(whi_reserve *r, uint32_t unit, int more) {
    uint32_t k;
    for (const uint32_t end = sides_of(&r->plan, unit, unit + 1, &k); k < end; k++) {
        r->side_users[k] += (uint32_t)more;
    }
}

static wh_status unmap_unit(wh_heap *h, uint32_t unit) {
    whi_reserve *r = h->reserve;
    const uint64_t bytes = r->plan.unit_bytes;
    TRY(h->device->ops->unmap(h->device, address(h, r->plan.units_at + unit * bytes), bytes,
                              bytes));
    r->units[unit] = ABSENT;
    r->n_mapped--;
    r->lowest = unit < r->lowest ? unit : r->lowest;
    use_sides(r, unit, -1);
    return WH_OK;
}

/* Units [first, end), all ABSENT: FRESH then. */
static wh_status map_row(wh_heap *h, uint32_t first, uint32_t end) {
    whi_reserve *r = h->reserve;
    const uint64_t bytes = r->plan.unit_bytes;
    uint32_t k;
    for (const uint32_t last = sides_of(&r->plan, first, end, &k); k < last; k++) {
        TRY(map_side(h, k));
    }
    TRY(map_for_all(h, address(h, r->plan.units_at + first * bytes), (end - first) * bytes, bytes));
    for (uint32_t u = first; u < end; u++) {
        r->units[u] = FRESH;
        use_sides(r, u, 1);
    }
    r->n_mapped += end - first;
    return WH_OK;
}

/* The end of the row of units like the first one. */
static uint32_t row_end(const whi_reserve *r, uint32_t first, uint32_t end) {
    uint32_t u = first + 1;
    while (u < end && r->units[u] == r->units[first]) {
        u++;
    }
    return u;
}

/* Maps what is absent of [first, end). On failure all is as before, but for what cannot be
 * unmapped, which is SPARE then. */
static wh_status map_absent(wh_heap *h, uint32_t first, uint32_t end) {
    whi_reserve *r = h->reserve;
    wh_status s = WH_OK;
    for (uint32_t u = first, next; u < end && s == WH_OK; u = next) {
        next = row_end(r, u, end);
        s = r->units[u] == ABSENT ? map_row(h, u, next) : WH_OK;
    }
    for (uint32_t u = first; u < end && s != WH_OK; u++) {
        if (r->units[u] == FRESH && unmap_unit(h, u) != WH_OK) {
            r->units[u] = SPARE;
        }
    }
    uint32_t side;
    const uint32_t last = sides_of(&r->plan, first, end, &side);
    if (s != WH_OK) {
        (void)drop_sides(h, side, last, 0);
    }
    return s;
}

wh_status whi_reserve_map(wh_heap *h, uint32_t first, uint32_t end) {
    whi_reserve *r = h->reserve;
    wh_status s = WH_OK;
    for (uint32_t u = first, next; u < end && s == WH_OK; u = next) {
        next = row_end(r, u, end);
        s = r->units[u] == ABSENT ? map_row(h, u, next) : WH_OK;
    }
    for (uint32_t u = first; u < end; u++) {
        r->units[u] = r->units[u] == FRESH ? SPARE : r->units[u];
    }
    r->top = end > r->top ? end : r->top;
    return s;
}

wh_status whi_reserve_share(const wh_heap *h, wh_device *peer) {
    const whi_reserve *r = h->reserve;
    const wh_reserve_plan *p = &r->plan;
    const whi_device_ops *ops = h->device->ops;
    TRY(ops->peer_share(h->device, peer, h->memory, p->fixed_bytes));
    for (uint32_t k = 0; k < p->side_bytes / p->granule; k++) {
        if (r->sides[k]) {
            TRY(ops->peer_share(h->device, peer, address(h, p->fixed_bytes + k * p->granule),
                                p->granule));
        }
    }
    for (uint32_t u = 0; u < p->n_units; u++) {
        if (r->units[u] != ABSENT) {
            TRY(ops->peer_share(h->device, peer, address(h, p->units_at + u * p->unit_bytes),
                                p->unit_bytes));
        }
    }
    return WH_OK;
}

/* --- kernels -------------------------------------------------------------------------------- */

static wh_status run_step(wh_heap *h, uint32_t kind, uint32_t first, uint32_t n, uint64_t items) {
    const whi_reserve *r = h->reserve;
    wh_reserve_step step;
    memset(&step, 0, sizeof step);
    step.kind = kind;
    step.first = first;
    step.n = n;
    step.bits = address(h, r->plan.survey_at);
    step.mapped_bytes = whi_reserve_mapped(r);
    step.metadata_bytes = whi_reserve_metadata(r);
    h->plan.metadata_bytes = step.metadata_bytes;
    const wh_launch l = whi_heap_launch(h, items, NULL);
    return h->ops->reserve_step(&l, h->handle, &step);
}

/* Tells the heap what is mapped, then makes all of [first, end) that is mapped its own. */
static wh_status publish(wh_heap *h, uint32_t first, uint32_t end) {
    whi_reserve *r = h->reserve;
    while (r->top > 0 && r->units[r->top - 1] == ABSENT) {
        r->top--;
    }
    wh_status s = run_step(h, WH_RESERVE_SETTLE, r->top, 0, 1);
    for (uint32_t u = first, next; u < end; u = next) {
        next = row_end(r, u, end);
        if (r->units[u] != FRESH && r->units[u] != SPARE) {
            continue;
        }
        if (s == WH_OK) {
            s = run_step(h, WH_RESERVE_PUBLISH, u, next - u, (next - u) * r->plan.unit_items);
        }
        memset(&r->units[u], s == WH_OK ? THERE : SPARE, next - u);
        r->n_there += s == WH_OK ? next - u : 0;
    }
    const wh_status last = wh_stream_sync(h->device, NULL);
    return s == WH_OK ? last : s;
}

wh_status whi_reserve_complete(wh_heap *h, uint32_t unit) {
    whi_reserve *r = h->reserve;
    TRY(run_step(h, WH_RESERVE_SETTLE, r->top, 0, 1));
    TRY(run_step(h, WH_RESERVE_PUBLISH, unit, 1, r->plan.unit_items));
    return wh_stream_sync(h->device, NULL);
}

wh_status whi_reserve_set_growth(wh_heap *h, void *box, uint32_t wait_us) {
    wh_reserve_step step;
    memset(&step, 0, sizeof step);
    step.kind = WH_RESERVE_GROWTH;
    step.bits = box;
    step.n = wait_us;
    const wh_launch l = whi_heap_launch(h, 1, NULL);
    const wh_status s = h->ops->reserve_step(&l, h->handle, &step);
    return s == WH_OK ? wh_stream_sync(h->device, NULL) : s;
}

/* --- extend ---------------------------------------------------------------------------------- */

/* n more units, holes first. */
wh_status whi_reserve_extend(wh_heap *h, uint64_t n) {
    whi_reserve *r = h->reserve;
    if (n > r->plan.n_units - r->n_there) {
        return whi_refuse(
            WH_RESERVE_FULL,
            "the heap has reserved %llu bytes of addresses, %llu are left for blocks: "
            "create it with more reserve_bytes",
            (unsigned long long)r->bytes,
            (unsigned long long)((r->plan.n_units - r->n_there) * r->plan.unit_bytes));
    }
    while (r->lowest < r->plan.n_units && r->units[r->lowest] == THERE) {
        r->lowest++;
    }
    uint32_t end = r->lowest;
    for (uint64_t found = 0; found < n; end++) {
        found += r->units[end] != THERE;
    }
    const wh_status s = map_absent(h, r->lowest, end);
    r->top = end > r->top ? end : r->top;
    if (s != WH_OK) { /* what could not be undone is mapped all the same */
        (void)publish(h, 0, 0);
    }
    if (s == WH_OUT_OF_MEMORY) {
        return whi_refuse(s, "the device has no %llu bytes of memory left: the heap is as before",
                          (unsigned long long)(n * r->plan.unit_bytes));
    }
    return s == WH_OK ? publish(h, r->lowest, end) : s;
}

/* --- trim ------------------------------------------------------------------------------------ */

/* Unmaps units that are mapped and not the heap's, from the top down to `keep` bytes. */
static wh_status drop_spare(wh_heap *h, uint64_t keep) {
    whi_reserve *r = h->reserve;
    wh_status s = WH_OK;
    for (uint32_t u = r->top; u-- > 0 && r->n_mapped != r->n_there;) {
        if (r->units[u] == SPARE && whi_reserve_mapped(r) >= keep + r->plan.unit_bytes) {
            const wh_status its = unmap_unit(h, u);
            s = s == WH_OK ? its : s;
        }
    }
    return s;
}

/* Units of the heap without a block leave it, from the top on, as many as may go: SPARE then. */
static wh_status withdraw(wh_heap *h, const uint64_t *free_units, uint64_t keep) {
    whi_reserve *r = h->reserve;
    uint64_t n = (whi_reserve_mapped(r) - keep) / r->plan.unit_bytes;
    for (uint32_t end = r->top; end > 0 && n > 0;) {
        uint32_t first = end;
        while (first > 0 && n > 0 && r->units[first - 1] == THERE &&
               (free_units[(first - 1) / 64] >> (first - 1) % 64 & 1) != 0) {
            first--;
            n--;
        }
        if (first < end) {
            TRY(run_step(h, WH_RESERVE_WITHDRAW, first, end - first,
                         (end - first) * r->plan.unit_items));
            memset(&r->units[first], SPARE, end - first);
            r->n_there -= end - first;
        }
        end = first < end ? first : end - 1;
    }
    TRY(run_step(h, WH_RESERVE_CLEAN, 0, 0, r->plan.init_items));
    return wh_stream_sync(h->device, NULL);
}

static wh_status trim_to(wh_heap *h, uint64_t keep) {
    whi_reserve *r = h->reserve;
    wh_status s = drop_spare(h, keep);
    if (s != WH_OK || whi_reserve_mapped(r) < keep + r->plan.unit_bytes) {
        return s;
    }
    const size_t bytes = (r->plan.n_units + (size_t)63) / 64 * 8;
    uint64_t *free_units = malloc(bytes);
    s = free_units != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? run_step(h, WH_RESERVE_CLOSE, 0, 0, r->plan.init_items) : s;
    s = s == WH_OK ? run_step(h, WH_RESERVE_SURVEY, 0, 0, bytes / 8) : s;
    if (s == WH_OK) {
        s = h->device->ops->copy_out_on(h->device, free_units, address(h, r->plan.survey_at), bytes,
                                        NULL);
    }
    s = s == WH_OK ? withdraw(h, free_units, keep) : s;
    free(free_units);
    return s == WH_OK ? drop_spare(h, keep) : s;
}

/* The end of a trim that came to s: words that no unit needs go, too; and what could not be
 * unmapped is the heap's again. */
static wh_status end_trim(wh_heap *h, uint64_t keep, wh_status s) {
    whi_reserve *r = h->reserve;
    const uint32_t all = (uint32_t)(r->plan.side_bytes / r->plan.granule);
    const wh_status sides = drop_sides(h, 0, all, keep);
    const wh_status last = publish(h, 0, r->top);
    s = s == WH_OK ? sides : s;
    return s == WH_OK ? last : s;
}

wh_status whi_reserve_trim(wh_heap *h, uint64_t keep) {
    return end_trim(h, keep, trim_to(h, keep));
}

wh_status whi_reserve_drop_spare(wh_heap *h) {
    return end_trim(h, 0, drop_spare(h, 0));
}

/* --- create and destroy ---------------------------------------------------------------------- */

static uint64_t least_bytes(const wh_reserve_plan *p) {
    uint32_t from;
    return p->fixed_bytes + sides_of(p, 0, 1, &from) * p->granule + p->unit_bytes;
}

static wh_status make_plan(const whi_alloc_ops *ops, wh_device *device, uint64_t bytes,
                           const wh_any_options *options, uint32_t n_sms, wh_reserve_plan *p) {
    unsigned char handle[WH_HANDLE_BYTES];
    memset(p, 0, sizeof *p);
    p->granule = device->ops->granularity(device);
    if (p->granule == 0) {
        return whi_refuse(WH_UNSUPPORTED, "this device cannot map memory into reserved addresses");
    }
    return ops->reserve_plan(handle, p, NULL, bytes, options, n_sms);
}

wh_status whi_reserve_min_bytes(const whi_alloc_ops *ops, wh_device *device, uint64_t bytes,
                                const wh_any_options *options, uint64_t *least) {
    wh_reserve_plan p;
    const uint32_t n_sms = wh_device_get_info(device)->n_sms;
    const wh_status s = make_plan(ops, device, bytes, options, n_sms, &p);
    *least = s == WH_OK || s == WH_HEAP_TOO_SMALL ? least_bytes(&p) : p.max_bytes;
    return s;
}

/* Units that can be mapped with `bytes` bytes in all. */
static uint32_t units_for(const wh_reserve_plan *p, uint64_t bytes) {
    const uint64_t room = (bytes - p->fixed_bytes) / p->unit_bytes;
    uint32_t n = room < p->n_units ? (uint32_t)room : p->n_units, from;
    while (p->fixed_bytes + sides_of(p, 0, n, &from) * p->granule + n * p->unit_bytes > bytes) {
        n--;
    }
    return n;
}

/* The addresses, at `wish` if they can be had there, and the part that is mapped from the start. */
static wh_status take_addresses(wh_heap *h, uint32_t n_sms, void *wish) {
    whi_reserve *r = h->reserve;
    wh_reserve_plan *p = &r->plan;
    wh_device *d = h->device;
    const uint64_t n_sides = p->side_bytes / p->granule;
    r->units = calloc(p->n_units, sizeof *r->units);
    r->sides = calloc(n_sides, sizeof *r->sides);
    r->side_users = calloc(n_sides, sizeof *r->side_users);
    if (r->units == NULL || r->sides == NULL || r->side_users == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    TRY(d->ops->reserve(d, &wish, r->bytes));
    h->memory = wish;
    TRY(h->ops->reserve_plan(h->handle, p, h->memory, r->bytes, &h->options, n_sms));
    h->plan.init_items = p->init_items;
    TRY(whi_records_attach(h));
    TRY(d->ops->map(d, h->memory, p->fixed_bytes, p->fixed_bytes));
    r->fixed_there = 1;
    r->side_users[0] = 1;
    return map_side(h, 0);
}

static wh_status open_reserve(wh_heap *h, uint64_t mapped) {
    const wh_reserve_plan *p = &h->reserve->plan;
    TRY(take_addresses(h, wh_device_get_info(h->device)->n_sms, NULL));
    TRY(run_step(h, WH_RESERVE_OPEN, 0, 0, p->init_items));
    const wh_launch l = whi_heap_launch(h, p->init_items, NULL);
    TRY(h->ops->init(&l, h->handle));
    return whi_reserve_extend(h, units_for(p, mapped));
}

wh_status whi_reserve_create(wh_heap *h, uint64_t bytes) {
    whi_reserve *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->switching, NULL);
    h->reserve = r;
    const uint32_t n_sms = wh_device_get_info(h->device)->n_sms;
    wh_status s = make_plan(h->ops, h->device, bytes, &h->options, n_sms, &r->plan);
    h->plan.max_bytes = r->plan.max_bytes;
    if (s != WH_OK && s != WH_HEAP_TOO_SMALL) {
        return s;
    }
    const uint64_t granule = r->plan.granule;
    const uint64_t mapped = (h->bytes + granule - 1) / granule * granule;
    r->bytes = bytes / granule * granule;
    if (s != WH_OK || mapped < least_bytes(&r->plan)) {
        return whi_refuse(WH_HEAP_TOO_SMALL,
                          "a heap of %llu bytes mapped of %llu reserved is too small: so much of "
                          "the addresses needs %llu at least (wh_heap_min_bytes)",
                          (unsigned long long)h->bytes, (unsigned long long)bytes,
                          (unsigned long long)least_bytes(&r->plan));
    }
    h->bytes = r->bytes;
    s = open_reserve(h, mapped);
    if (s == WH_OUT_OF_MEMORY) {
        return whi_refuse(s, "the device has no %llu bytes of memory left, or no %llu of addresses",
                          (unsigned long long)mapped, (unsigned long long)bytes);
    }
    return s;
}

void whi_reserve_look(const wh_heap *h, wh_reserve_plan *plan, uint64_t *units) {
    whi_reserve *r = h->reserve;
    (void)pthread_mutex_lock(&r->lock);
    *plan = r->plan;
    for (uint32_t u = 0; units != NULL && u < r->plan.n_units; u++) {
        units[u / 64] |= (uint64_t)(r->units[u] == THERE) << u % 64;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

/* Maps units that are to be the heap's: THERE, though nobody has told the heap. */
static wh_status map_there(wh_heap *h, const uint64_t *units) {
    whi_reserve *r = h->reserve;
    for (uint32_t u = 0; u < r->plan.n_units; u++) {
        uint32_t end = u;
        while (end < r->plan.n_units && (units[end / 64] >> end % 64 & 1) != 0) {
            end++;
        }
        if (u < end) {
            TRY(map_row(h, u, end));
            memset(&r->units[u], THERE, end - u);
            r->n_there += end - u;
            r->top = end;
            u = end - 1;
        }
    }
    return WH_OK;
}

wh_status whi_reserve_restore(wh_heap *h, const wh_reserve_plan *plan, const uint64_t *units,
                              uint32_t n_sms, void *wish) {
    whi_reserve *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_mutex_init(&r->switching, NULL);
    h->reserve = r;
    r->bytes = h->bytes;
    TRY(make_plan(h->ops, h->device, r->bytes, &h->options, n_sms, &r->plan));
    if (r->plan.granule != plan->granule) {
        return whi_refuse(WH_WRONG_TARGET,
                          "the device maps memory by granules of %llu bytes, that of the saved "
                          "heap did by %llu",
                          (unsigned long long)r->plan.granule, (unsigned long long)plan->granule);
    }
    if (memcmp(&r->plan, plan, sizeof *plan) != 0) {
        return whi_refuse(WH_WRONG_BUILD, "this library lays out reserved addresses otherwise");
    }
    TRY(take_addresses(h, n_sms, wish));
    return map_there(h, units);
}

wh_status whi_reserve_restored(wh_heap *h) {
    return publish(h, 0, 0);
}

wh_status whi_reserve_destroy(wh_heap *h) {
    whi_reserve *r = h->reserve;
    const whi_device_ops *ops = h->device->ops;
    wh_status s = WH_OK;
    for (uint32_t u = 0; r->units != NULL && u < r->plan.n_units && r->n_mapped != 0; u++) {
        const wh_status its = r->units[u] != ABSENT ? unmap_unit(h, u) : WH_OK;
        s = s == WH_OK ? its : s;
    }
    if (r->n_sides != 0) {
        r->side_users[0] = 0;
        const wh_status its = drop_sides(h, 0, (uint32_t)(r->plan.side_bytes / r->plan.granule), 0);
        s = s == WH_OK ? its : s;
    }
    if (r->fixed_there) {
        const wh_status its =
            ops->unmap(h->device, h->memory, r->plan.fixed_bytes, r->plan.fixed_bytes);
        s = s == WH_OK ? its : s;
    }
    if (h->memory != NULL) { /* addresses that are mapped in part cannot be released */
        const wh_status its = ops->release(h->device, h->memory, r->bytes);
        s = s == WH_OK ? its : s;
    }
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_mutex_destroy(&r->switching);
    free(r->units);
    free(r->sides);
    free(r->side_users);
    free(r);
    h->reserve = NULL;
    return s;
}

void whi_reserve_lock(const wh_heap *h) {
    if (h->reserve != NULL) {
        (void)pthread_mutex_lock(&h->reserve->lock);
    }
}

void whi_reserve_unlock(const wh_heap *h) {
    if (h->reserve != NULL) {
        (void)pthread_mutex_unlock(&h->reserve->lock);
    }
}
