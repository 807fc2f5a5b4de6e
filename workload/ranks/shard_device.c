/* shard_device.c: device memory of a graph on several ranks, its map of owners there, and its ids
 * in the order of these. */
#include "workload/ranks/shard_own.h"

#include <stdlib.h>
#include <string.h>

#include "warpheap/detail/alloc/tables.h"

WH_TABLES_ONCE(whi_shard_kernels, whi_shard_kernels_find)

#define FILL 4u /* a rank's entries are a multiple of so many */

void whi_shard_drop(wh_shard *s, whi_shard_memory *m) {
    (void)wh_device_free(s->device, m->p);
    memset(m, 0, sizeof *m);
}

int whi_shard_room(wh_shard *s, whi_shard_memory *m, uint64_t bytes) {
    void *p = NULL;
    const uint64_t more = m->p == NULL ? bytes + 64 : bytes + bytes / 4 + 64; /* it will grow */
    if (m->p != NULL && bytes <= m->bytes) {
        return 1;
    }
    whi_shard_drop(s, m);
    const wh_status status = wh_device_alloc(s->device, &p, more);
    wh_comm_report(s->comm, status, "the device has no memory for what goes, or comes");
    m->p = p;
    m->bytes = status == WH_OK ? more : 0;
    return status == WH_OK;
}

void *whi_shard_piece(unsigned char **at, uint64_t bytes) {
    void *p = *at;
    *at += whi_shard_padded(bytes);
    return p;
}

void whi_shard_changed(wh_shard *s, uint32_t v) {
    s->map_first = v < s->map_first ? v : s->map_first;
    s->map_end = v + 1 > s->map_end ? v + 1 : s->map_end;
}

wh_status whi_shard_bring_map(wh_shard *s) {
    if (s->map_first >= s->map_end) {
        return WH_OK;
    }
    const uint64_t n = s->map_end - s->map_first;
    uint16_t *map = malloc(n * sizeof *map);
    if (map == NULL) {
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t v = s->map_first + i;
        map[i] = s->is[v] ? s->owner[v] : WHI_SHARD_NOBODY;
    }
    const wh_status status =
        wh_device_copy_in(s->device, s->map.p + 2 * (uint64_t)s->map_first, map, n * sizeof *map);
    free(map);
    if (status == WH_OK) {
        s->map_first = s->n;
        s->map_end = 0;
    }
    return status;
}

/* How many entries each rank has, and where they begin. Returns how many there are in all. */
static uint64_t count_order(wh_shard *s) {
    const size_t bytes = ((size_t)s->size + 1) * sizeof *s->order_first;
    memset(s->order_first, 0, bytes);
    for (uint32_t v = 0; v < s->n; v++) {
        s->order_first[s->owner[v] + 1]++;
    }
    for (int r = 0; r < s->size; r++) {
        const uint64_t n = s->order_first[r + 1];
        s->order_first[r + 1] = s->order_first[r] + (n + FILL - 1) / FILL * FILL;
        s->at[r] = s->order_first[r];
    }
    return s->order_first[s->size];
}

wh_status whi_shard_bring_order(wh_shard *s) {
    if (s->has_order) {
        return WH_OK;
    }
    const uint64_t entries = count_order(s);
    const uint64_t bytes = (entries + (uint64_t)s->size + 1) * sizeof(uint32_t);
    uint32_t *order = malloc(bytes);
    if (order == NULL || !whi_shard_room(s, &s->order, bytes)) {
        free(order);
        return WH_OUT_OF_MEMORY;
    }
    memset(order, 0xff, bytes);
    for (uint32_t v = 0; v < s->n; v++) {
        order[s->at[s->owner[v]]++] = v;
    }
    for (int r = 0; r <= s->size; r++) {
        order[entries + (uint64_t)r] = (uint32_t)s->order_first[r];
    }
    const wh_status status = wh_device_copy_in(s->device, s->order.p, order, bytes);
    free(order);
    s->has_order = status == WH_OK;
    return status;
}
