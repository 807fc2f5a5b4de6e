/* vertices_kernels.c: targeted source (compiled once for each target): ids and names of the
 * vertices of graphs, of any class. vertices.h has the invariants I7 to I9. */
#define WH_KERNEL_THREADS 256

#include "vertices.h"

#include "rounds.h"
#include "warpheap/detail/alloc/tables.h"
#include "warpheap/warpheap.h"

/* --- the map ------------------------------------------------------------------------------------
 */

/* The place of a name, which it gets if it has none; *is_new: it has got one. */
WH_FN uint64_t claim_place(const whi_vertices *v, uint64_t name, int *is_new) {
    uint64_t at = whi_map_first(name, v->size);
    WH_NO_UNROLL
    for (;;) { /* some places are unused */
        uint64_t seen = wh_load_u64_relaxed(&v->keys[at]);
        if (seen == WH_GRAPH_NO_NAME) {
            seen = WH_PLANT(vertices_i8_place, /* I8 */
                            wh_cas_u64_relaxed(&v->keys[at], WH_GRAPH_NO_NAME, name),
                            (wh_store_u64_relaxed(&v->keys[at], name), WH_GRAPH_NO_NAME));
            *is_new |= seen == WH_GRAPH_NO_NAME;
            seen = seen == WH_GRAPH_NO_NAME ? name : seen;
        }
        if (seen == name) {
            return at;
        }
        at = at + 1 < v->size ? at + 1 : 0;
    }
}

/* The place of a name; `size`: it has none. */
WH_FN uint64_t find_place(const whi_vertices *v, uint64_t name) {
    uint64_t at = whi_map_first(name, v->size);
    WH_NO_UNROLL
    for (;;) {
        const uint64_t seen = v->keys[at];
        if (seen == name) {
            return at;
        }
        if (seen == WH_GRAPH_NO_NAME) {
            return v->size;
        }
        at = at + 1 < v->size ? at + 1 : 0;
    }
}

/* The vertex of a name, or NO_ID. */
WH_FN uint32_t find_id(const whi_vertices *v, uint64_t name) {
    uint32_t id = WHI_NO_ID;
    if (name != WH_GRAPH_NO_NAME && v->names != NULL) {
        const uint64_t at = find_place(v, name);
        id = at != v->size ? v->ids[at] : WHI_NO_ID;
    }
    return id;
}

WH_FN int map_is_due(const whi_vertices *v) {
    return v->anew || whi_map_is_stale(v->counts->places, v->counts->named, v->size);
}

WH_KERNEL(clear_map, whi_vertices, v) {
    if (map_is_due(&v)) {
        for (uint64_t at = wh_thread_id(); at < v.size; at += wh_grid_threads()) {
            v.keys[at] = WH_GRAPH_NO_NAME;
            v.ids[at] = WHI_NO_ID;
        }
    }
}

WH_KERNEL(fill_map, whi_vertices, v) {
    if (map_is_due(&v)) {
        for (uint64_t id = wh_thread_id(); id < v.n; id += wh_grid_threads()) {
            int is_new = 0;
            if (v.names[id] != WH_GRAPH_NO_NAME) {
                v.ids[claim_place(&v, v.names[id], &is_new)] = (uint32_t)id;
            }
        }
    }
}

/* --- vertices that come -------------------------------------------------------------------------
 */

WH_FN uint32_t ids_left(const whi_vertices *v) {
    return v->counts->n_free + (v->n - v->counts->next);
}

/* The k-th id that this call gives out, or NO_ID. */
WH_FN uint32_t id_of(const whi_vertices *v, uint32_t k) {
    const uint32_t n_free = v->counts->n_free;
    uint32_t id = WHI_NO_ID;
    if (k < n_free) {
        id = v->free[n_free - 1 - k];
    } else if (k < ids_left(v)) {
        id = v->counts->next + (k - n_free);
    }
    return id;
}

WH_FN void set_alive(const whi_vertices *v, uint32_t id) {
    WH_PLANT(vertices_i9_set, wh_or_u32_relaxed(&v->alive[id / 32], 1u << id % 32),
             wh_store_u32_relaxed(&v->alive[id / 32], 1u << id % 32)); /* I9 */
}

WH_KERNEL(add_all_ids, whi_vertices, v) {
    for (uint64_t i = wh_thread_id(); i < v.n_list; i += wh_grid_threads()) {
        const uint32_t id = id_of(&v, (uint32_t)i);
        if (id != WHI_NO_ID) {
            set_alive(&v, id);
        }
        if (v.out != NULL) {
            v.out[i] = id;
        }
    }
    if (wh_thread_id() == 0) {
        v.counts->taken = v.n_list;
        v.counts->refused = v.n_list > ids_left(&v) ? v.n_list - ids_left(&v) : 0;
    }
}

WH_KERNEL(claim_names, whi_vertices, v) {
    uint64_t places = 0, named = 0, bad = 0;
    FOR_ROUNDS(i, v.n_list) {
        const uint64_t name = i < v.n_list ? v.list_names[i] : WH_GRAPH_NO_NAME;
        uint64_t at = 0;
        int is_new = 0, wants = 0;
        if (name != WH_GRAPH_NO_NAME) {
            at = claim_place(&v, name, &is_new);
            wants = WH_PLANT(vertices_i8_pending, /* I8 */
                             wh_cas_u32_relaxed(&v.ids[at], WHI_NO_ID, WHI_PENDING) == WHI_NO_ID,
                             wh_load_u32_relaxed(&v.ids[at]) == WHI_NO_ID);
        }
        const uint32_t k = place_all(&v.counts->taken, wants);
        if (wants) {
            const uint32_t id = id_of(&v, k);
            if (id != WHI_NO_ID) {
                set_alive(&v, id);
                v.names[id] = name;
                named++;
            }
            wh_store_u32_relaxed(&v.ids[at], id);
        }
        places += is_new != 0;
        bad += i < v.n_list && name == WH_GRAPH_NO_NAME;
    }
    add_all(&v.counts->places, places);
    add_all(&v.counts->named, named);
    add_all(&v.counts->no_vertex, bad);
}

/* Behind claim_names: who has no id now was refused. */
WH_KERNEL(tell_names, whi_vertices, v) {
    uint64_t refused = 0;
    if (v.out == NULL && v.counts->taken <= ids_left(&v)) {
        return;
    }
    FOR_ROUNDS(i, v.n_list) {
        const uint64_t name = i < v.n_list ? v.list_names[i] : WH_GRAPH_NO_NAME;
        const uint32_t id = find_id(&v, name);
        refused += name != WH_GRAPH_NO_NAME && id == WHI_NO_ID;
        if (i < v.n_list && v.out != NULL) {
            v.out[i] = id;
        }
    }
    add_all(&v.counts->refused, refused);
}

/* --- vertices that go ---------------------------------------------------------------------------
 */

WH_KERNEL(mark_all, whi_vertices, v) {
    const uint32_t n_free = v.counts->n_free;
    uint64_t bad = 0, again = 0;
    FOR_ROUNDS(i, v.n_list) {
        uint32_t id = WHI_NO_ID;
        int is = 0, goes = 0;
        if (i < v.n_list) {
            id = v.list_ids != NULL ? v.list_ids[i] : find_id(&v, v.list_names[i]);
            is = id < v.n && whi_bit(v.alive, id);
            bad += !is;
        }
        if (is) {
            const uint32_t bit = 1u << id % 32;
            goes = WH_PLANT(vertices_i9_mark, /* I9 */
                            (wh_fetch_or_u32_relaxed(&v.removed[id / 32], bit) & bit) == 0,
                            (wh_or_u32_relaxed(&v.removed[id / 32], bit), 1));
            again += !goes;
        }
        const uint32_t k = place_all(&v.counts->taken, goes);
        if (goes) {
            v.free[n_free + WH_PLANT(vertices_i9_free, k, 0u)] = id; /* I9 */
        }
        if (i < v.n_list && v.out != NULL) {
            v.out[i] = is ? id : WHI_NO_ID;
        }
    }
    add_all(&v.counts->no_vertex, bad);
    add_all(&v.counts->no_change, again);
}

WH_KERNEL(forget_all, whi_vertices, v) {
    const uint32_t *gone = v.free + v.counts->n_free;
    uint64_t named = 0;
    FOR_ROUNDS(i, v.counts->taken) {
        if (i < v.counts->taken) {
            const uint32_t id = gone[i], others = ~(1u << id % 32);
            wh_and_u32_relaxed(&v.alive[id / 32],
                               WH_PLANT(vertices_i9_alive, others, ~0u)); /* I9 */
            wh_and_u32_relaxed(&v.removed[id / 32],
                               WH_PLANT(vertices_i9_removed, others, ~0u)); /* I9 */
            if (v.names != NULL && v.names[id] != WH_GRAPH_NO_NAME) {
                v.ids[find_place(&v, v.names[id])] =
                    WH_PLANT(vertices_i8_forget, WHI_NO_ID, id); /* I8 */
                v.names[id] = WH_GRAPH_NO_NAME;
                named++;
            }
        }
    }
    add_all(&v.counts->named, 0 - named);
}

/* --- the end of a call; one thread --------------------------------------------------------------
 */

WH_FN void end_call(const whi_vertices *v, uint32_t applied) {
    whi_vertex_counts *c = v->counts;
    wh_graph_vertices_result r = c->result;
    if (!v->goes_on) {
        r.applied = r.no_change = r.refused = r.no_vertex = r.arcs = 0;
    }
    r.applied += applied;
    r.no_change += v->n_list - applied - c->refused - c->no_vertex;
    r.refused += c->refused;
    r.no_vertex += c->no_vertex;
    r.arcs += c->arcs;
    c->result = r;
    c->taken = c->hubs = 0;
    c->no_change = c->refused = c->no_vertex = c->arcs = 0;
    if (v->names != NULL && map_is_due(v)) {
        c->places = c->named; /* it was filled anew */
    }
}

WH_KERNEL(end_added, whi_vertices, v) {
    whi_vertex_counts *c = v.counts;
    if (wh_thread_id() == 0) {
        const uint32_t left = ids_left(&v), n = c->taken < left ? c->taken : left;
        const uint32_t again = n < c->n_free ? n : c->n_free;
        c->n_free -= again;
        c->next += n - again;
        c->live += n;
        end_call(&v, n);
    }
}

WH_KERNEL(end_gone, whi_vertices, v) {
    whi_vertex_counts *c = v.counts;
    if (wh_thread_id() == 0) {
        const uint32_t n = c->taken;
        wh_assert_internal(v.n_list - n - c->no_vertex == c->no_change);
        c->n_free += n;
        c->live -= n;
        end_call(&v, n);
    }
}

/* --- looking, and growing -----------------------------------------------------------------------
 */

WH_KERNEL(find_all, whi_vertices, v) {
    for (uint64_t i = wh_thread_id(); i < v.n_list; i += wh_grid_threads()) {
        v.out[i] = find_id(&v, v.list_names[i]);
    }
}

WH_KERNEL(copy_words, whi_vertices, v) {
    for (uint64_t i = wh_thread_id(); i < v.words; i += wh_grid_threads()) {
        v.to[i] = v.from[i];
    }
}

/* --- host side ----------------------------------------------------------------------------------
 */

typedef wh_status (*kernel_fn)(const wh_launch *launch, const whi_vertices *v);

static wh_status start(kernel_fn kernel, wh_device *device, void *stream, const whi_vertices *v,
                       uint64_t threads) {
    const wh_launch l = rounds_of(device, stream, threads);
    return kernel(&l, v);
}

#define HOST_STEP(kernel, threads)                                                           \
    static wh_status kernel##_step(wh_device *device, void *stream, const whi_vertices *v) { \
        return start(kernel, device, stream, v, threads);                                    \
    }
HOST_STEP(add_all_ids, v->n_list)
HOST_STEP(claim_names, v->n_list)
HOST_STEP(tell_names, v->n_list)
HOST_STEP(end_added, 1)
HOST_STEP(mark_all, v->n_list)
HOST_STEP(forget_all, v->n_list)
HOST_STEP(end_gone, 1)
HOST_STEP(find_all, v->n_list)
HOST_STEP(copy_words, v->words)

static wh_status renew_step(wh_device *device, void *stream, const whi_vertices *v) {
    const wh_status s = start(clear_map, device, stream, v, v->size);
    return s == WH_OK ? start(fill_map, device, stream, v, v->n) : s;
}

WH_TABLE_ONCE(whi_vertex_kernels) = {
    add_all_ids_step, claim_names_step, tell_names_step, end_added_step, mark_all_step,
    forget_all_step,  end_gone_step,    renew_step,      find_all_step,  copy_words_step,
};
