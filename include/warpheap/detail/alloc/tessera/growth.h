/* alloc/tessera/growth.h: a heap in reserved addresses that gets more memory while lanes run, from
 * a thread of the host. What that does: src/host/growth.c. This file may change: it is no part of
 * the API.
 *
 * The host maps units and posts them, as rows, in the box (contract.h), memory of its own that the
 * device sees, too. A malloc that finds nothing takes parts of the last row's units, of 64 chunks
 * each, publishes them, and looks again. Where there are none it asks the host for more, and waits:
 * until parts have come into the pool, or the host has answered that there are none, or its time is
 * over. The host posts a large request piece by piece; who waits for much publishes it meanwhile.
 *
 * growth  stored while the heap is quiet. NULL: none of this happens
 * lock    exchange acquire, by a lane that then takes units or asks; store release, a few loads and
 *         stores later. It protects growing's fields down to `asked`, and what lanes store in the
 *         box
 * top, home_chunks   fetch_max, relaxed, by who publishes
 *
 * I10     a part that is mapped is posted, in the header's row, a lane's that publishes it, or in
 *         the pool. From the row to the pool it is in a take, which begins under the lock: so a
 *         search before NULL waits for it (oom.h X1). An event there ends older verdicts about runs
 *         (X2), which may have been set before the take
 * X4      NULL for want of memory only if the host has said, to a request that was made during the
 *         call, that it has no more, nobody had taken less than all it had posted, and behind that
 *         a search has found nothing (X1, X2). Or it has said before that it posts no more at all
 *         (NEVER: nothing leaves a heap while lanes run), and the search is behind that. NULL for
 *         want of time is counted: timed_out
 *
 * P12     the host: map, then posted, release -> take_parts_, acquire, both of system scope: units
 *         are there before lanes use them; other lanes that put them into the pool: a sync. Its
 *         answer comes behind what it has posted for it, and lanes read the answer first: so an
 *         answer and nothing posted means that there was nothing
 * P13     take_parts_: the take begins, then unlock, release -> the lock, acquire, of who sees no
 *         parts left; its store of `answer`, release -> the load of who waits, or only begins
 *         (new_wish_), acquire, which then searches (oom.h reads takes behind that)
 *
 * Progress  who waits holds nothing: no lock, no take, no cursor. The holder of the lock waits for
 *         nobody, the host's thread for no lane. So each wait ends with an answer, or with its
 *         time: for who has had the lock since, and has found nothing posted. The time begins anew
 *         when parts have come into the pool. None leaves it while lanes run, so that happens at
 *         most once for each part of the heap
 * Cost    parts that are posted: 2 atomics and 2 stores to the host's memory; each row 5 loads
 *         from there, about a microsecond each; then what publishing takes. Heaps that do not grow:
 *         a load where they have found nothing
 * Check   tests/unit/tessera_growth.c, tests/fault
 */
#ifndef WH_ALLOC_TESSERA_GROWTH_H
#define WH_ALLOC_TESSERA_GROWTH_H

#include "warpheap/detail/alloc/tessera/steps.h"

#include "warpheap/detail/simt/begin.h"

/* --- units come into the pool ------------------------------------------------------------- */

/* log2 of the chunks of a unit. */
WH_HD uint32_t wh_tessera_unit_log2_(wh_tessera_core g) {
    wh_assert_internal(g.reserved != 0);
    return g.reserved - 1u;
}

/* log2 of the chunks of a part of a unit: those of a word of the pool, if it has so many. */
WH_HD uint32_t wh_tessera_part_log2_(wh_tessera_core g) {
    const uint32_t log2 = wh_tessera_unit_log2_(g);
    return log2 < 6 ? log2 : 6;
}

/* Chunks [first, end). */
typedef struct wh_tessera_row {
    uint32_t first, end;
} wh_tessera_row;

/* Those of n units, or parts, of 1 << log2 chunks. */
WH_FN wh_tessera_row wh_tessera_row_(wh_tessera_core g, uint32_t first, uint32_t n, uint32_t log2) {
    wh_tessera_row row;
    wh_assert_internal(n != 0 && ((uint64_t)first + n) << log2 <= g.n_chunks);
    row.first = first << log2;
    row.end = (first + n) << log2;
    return row;
}
WH_FN wh_tessera_row wh_tessera_row_of_units_(wh_tessera_core g, const wh_reserve_step *step) {
    return wh_tessera_row_(g, step->first, step->n, wh_tessera_unit_log2_(g));
}
/* Of word w of the pool. */
WH_FN uint64_t wh_tessera_of_row_(wh_tessera_row row, uint32_t w) {
    const uint32_t base = w << 6;
    const uint32_t from = row.first > base ? row.first - base : 0;
    const uint32_t to = row.end > base ? row.end - base : 0;
    return to == 0 ? 0 : wh_ones_from_u64(from) & ~wh_ones_from_u64(to);
}

/* Chunks of word w of the pool, which are mapped and absent, come into the pool: all lanes of mask
 * share the work. reserve.h P11 */
WH_FN void wh_tessera_put_word_(wh_tessera_core g, wh_mask mask, uint32_t w, uint64_t chunks) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && chunks != 0);
    const uint32_t rank = wh_mask_rank(mask), lanes = wh_popc32(mask);
    const uint32_t first = w << 6 | wh_ctz64(chunks), count = wh_popc64(chunks);
    uint64_t *const words = wh_tessera_words_of_(g, first);
    if (WH_PLANT(tessera_p11_insert, 0, rank == 0)) {
        wh_tessera_put_chunks_(g, wh_tessera_shard_at_(g, w % g.n_shards), first, count);
    }
    /* Faults show where lanes are slow. */
    WH_PLANT(tessera_p11_insert, (void)0, wh_backoff(6));
    WH_PLANT(tessera_p11_sync, (void)0, rank != 0 ? wh_backoff(6) : (void)0);
    WH_UNROLL_8
    for (uint32_t k = rank; k < count; k += lanes) {
        wh_store_u64_relaxed(wh_tessera_tag_at_(g, first + k), WH_TESSERA_FREE);
        wh_store_u32_relaxed(wh_tessera_state_at_(g, first + k), 0);
    }
    WH_UNROLL_8
    for (uint32_t k = rank; k < count * g.words_of_chunk; k += lanes) {
        wh_store_u64_relaxed(&words[k], 0);
    }
    WH_PLANT(tessera_p11_sync, wh_syncwarp(mask), (void)0); /* P11 */
    if (rank == 0) {
        (void)wh_veb_insert_mask(wh_tessera_present_(g), w, chunks);
        if (WH_PLANT(tessera_p11_insert, 1, 0)) {
            wh_tessera_put_chunks_(g, wh_tessera_shard_at_(g, w % g.n_shards), first,
                                   count); /* P3, P6, P11 */
        }
    }
}

/* --- from the host ------------------------------------------------------------------------- */

/* How long a malloc is to wait for growth. */
typedef struct wh_tessera_wish {
    uint32_t over;  /* 0: it may wait; else why not any more */
    uint32_t count; /* growing.count before it looked for memory */
    uint32_t soon;  /* it waits for a part of its time, which does not count (grow_soon_) */
    uint32_t grows; /* times that it may do so: others may take what has come */
} wh_tessera_wish;
#define WH_TESSERA_GROWS 4u
#define WH_TESSERA_REFUSED 1u
#define WH_TESSERA_TIMED_OUT 2u
/* What stands for NULL in slow paths where the call has waited for growth to the end of its time.
 */
#define WH_TESSERA_LATE ((void *)(uintptr_t)1)
#define WH_TESSERA_SOON_LOG2 3u /* of its time a wait is that may be in vain, as a part */

/* A heap that does not grow, or does so no more, has refused before anybody asks. */
WH_FN wh_tessera_wish wh_tessera_new_wish_(const wh_tessera_core *g) {
    const wh_tessera_header *header = wh_tessera_header_of_(g);
    const int may = header->growth != NULL &&
                    (wh_load_u64_acquire(&header->growing.answer) &
                     WH_PLANT(tessera_x4_never, WH_GROWTH_NEVER, UINT32_MAX)) == 0; /* X4 */
    wh_tessera_wish wish;
    wish.over = may ? 0 : WH_TESSERA_REFUSED;
    wish.soon = 0;
    wish.grows = may ? WH_TESSERA_GROWS : 0;
    wish.count = may ? wh_load_u32_relaxed(&header->growing.count) : 0;
    return wish;
}

/* n mallocs return NULL: as which, NULL or LATE. */
WH_FN void *wh_tessera_failed_(const wh_tessera_core *g, uint32_t shard, uint32_t n,
                               wh_tessera_wish wish) {
    wh_add_u64_relaxed(&wh_tessera_shard_at_(*g, shard)->failed, n);
    if (wish.over == WH_TESSERA_TIMED_OUT) {
        wh_add_u32_relaxed(&wh_tessera_header_(*g)->growing.timed_out, n);
    }
    return wish.over == WH_TESSERA_TIMED_OUT ? WH_TESSERA_LATE : NULL;
}

/* Up to n parts, from the host's rows, by a lane that has the lock: first << 32 | how many, and a
 * take has begun, which the caller ends (I10). 0: there are none, and `answer` is from before. */
WH_FN uint64_t wh_tessera_take_parts_(wh_tessera_core g, wh_tessera_shard *own, uint32_t n) {
    wh_tessera_header *header = wh_tessera_header_(g);
    wh_tessera_growth *growing = &header->growing;
    wh_growth_box *box = header->growth;
    uint32_t left = wh_load_u32_relaxed(&growing->left);
    uint32_t first = wh_load_u32_relaxed(&growing->first);
    if (left == 0) {
        const uint32_t rows = wh_load_u32_relaxed(&growing->rows);
        const uint64_t answer = wh_load_u64_system(&box->answer); /* P12 */
        if ((uint32_t)wh_load_u64_system(&box->posted) == rows) {
            wh_store_u64_release(&growing->answer, answer); /* P13 */
            return 0;
        }
        const wh_growth_row *row = &box->rows[rows % WH_GROWTH_ROWS];
        const uint64_t units = wh_load_u64_system(&row->units);
        const uint32_t log2 = wh_tessera_unit_log2_(g) - wh_tessera_part_log2_(g);
        first = wh_high_u32(units) << log2;
        left = wh_low_u32(units) << log2;
        wh_store_u32_relaxed(&growing->rows, rows + 1);
        wh_store_u64_relaxed(&header->mapped_bytes, wh_load_u64_system(&row->mapped_bytes));
        wh_store_u64_relaxed(&header->metadata_bytes, wh_load_u64_system(&row->metadata_bytes));
    }
    n = n < left ? n : left;
    WH_PLANT(tessera_i10_take, wh_tessera_begin_take_(own), (void)0);          /* I10, P13 */
    WH_PLANT(tessera_i10_event, wh_add_u32_relaxed(&own->events, 1), (void)0); /* I10 */
    const uint32_t taken = wh_load_u32_relaxed(&growing->taken) + n;
    wh_store_u32_relaxed(&growing->first, first + WH_PLANT(tessera_i10_units, n, 0));
    wh_store_u32_relaxed(&growing->left, left - n);
    wh_store_u32_relaxed(&growing->taken, taken);
    wh_store_u64_system(&box->taken, taken);
    return (uint64_t)first << 32 | n;
}

/* Whether the host does not map n units in a row. */
WH_FN int wh_tessera_refuses_(uint64_t answer, uint32_t n) {
    const uint32_t refused = wh_low_u32(answer);
    return refused != 0 && ((refused & WH_GROWTH_NEVER) != 0 || n >= refused);
}
/* So many steps of 1 << log2 chunks have n chunks. */
WH_FN uint32_t wh_tessera_in_steps_(uint64_t n, uint32_t log2) {
    return (uint32_t)((n + ((uint32_t)1 << log2) - 1) >> log2);
}

/* What a lane waits for. */
typedef struct wh_tessera_awaited {
    uint32_t n;      /* units, in a row */
    uint32_t parts;  /* that it takes at once */
    uint32_t number; /* of the request that is to be answered */
    uint32_t from;   /* growing.taken when it began to wait, or asked */
    uint32_t none;   /* its last look found no parts left; else others had the lock */
    uint64_t row;    /* parts that it has taken, or 0 */
} wh_tessera_awaited;

/* Asks for n units in a row, if request `number` has not been made and no other is under way. By a
 * lane that has the lock. */
WH_FN void wh_tessera_ask_host_(wh_tessera_header *header, wh_tessera_awaited *wait) {
    wh_tessera_growth *growing = &header->growing;
    const uint32_t asked = wh_load_u32_relaxed(&growing->asked);
    if (wh_high_u32(wh_load_u64_relaxed(&growing->answer)) == asked &&
        (int32_t)(asked - wait->number) < 0) {
        wait->from = wh_load_u32_relaxed(&growing->taken);
        wh_store_u32_relaxed(&growing->asked, asked + 1);
        wh_store_u64_system(&header->growth->asked, (uint64_t)(asked + 1) << 32 | wait->n);
    }
}

/* Parts that a lane of mask has taken come into the pool. All lanes of mask. */
WH_FN void wh_tessera_put_row_(const wh_tessera_core *ref, wh_mask mask, uint64_t row) {
    const wh_tessera_core g = *ref;
    wh_tessera_header *header = wh_tessera_header_(g);
    const int leads = wh_lane_id() == wh_mask_leader(mask);
    const wh_tessera_row its =
        wh_tessera_row_(g, wh_high_u32(row), wh_low_u32(row), wh_tessera_part_log2_(g));
    if (leads && WH_PLANT(tessera_p11_top, 1, 0)) { /* P11 */
        (void)wh_fetch_max_u32_relaxed(&header->top, its.end);
        (void)wh_fetch_max_u32_relaxed(&header->home_chunks, (its.end >> 6) / g.n_shards << 6);
    }
    WH_NO_UNROLL
    for (uint32_t w = its.first >> 6; w << 6 < its.end; w++) {
        wh_tessera_put_word_(g, mask, w, wh_tessera_of_row_(its, w));
    }
    if (leads) {
        wh_tessera_lower_run_next_(g, its.first, its.end - its.first);
        wh_add_u32_relaxed(&header->growing.count, 1);
    }
}

/* One look of a lane that waits: why it waits no more; 0: and the row that it has taken, or 0. */
WH_FN uint32_t wh_tessera_look_for_host_(wh_tessera_core g, wh_tessera_shard *own,
                                         wh_tessera_awaited *wait) {
    wh_tessera_header *header = wh_tessera_header_(g);
    wh_tessera_growth *growing = &header->growing;
    if (wh_load_u32_relaxed(&growing->lock) == 0 &&
        wh_exchange_u32_acquire(&growing->lock, 1) == 0) {
        wait->row = wh_tessera_take_parts_(g, own, wait->parts);
        wait->none = wait->row == 0;
        if (wait->none) {
            wh_tessera_ask_host_(header, wait);
        }
        wh_store_u32_release(&growing->lock, 0); /* P13 */
    }
    if (wait->row != 0) {
        return 0;
    }
    const uint64_t answer = wh_load_u64_acquire(&growing->answer); /* P13 */
    if (WH_PLANT(tessera_x4_number, (int32_t)(wh_high_u32(answer) - wait->number) < 0, 0)) {
        return 0;
    }
    if (wh_tessera_refuses_(answer, wait->n)) {
        return WH_TESSERA_REFUSED; /* X4 */
    }
    wait->number = wh_load_u32_relaxed(&growing->asked) + 1; /* it was served, others had that */
    return 0;
}

/* Waits until units come, from this lane's hand (wait->row) or another's (*count is not the
 * wish's any more), or why it is to wait no more. `leader` looks, all lanes of mask wait. */
WH_FN uint32_t wh_tessera_wait_for_host_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                         uint32_t leader, wh_tessera_awaited *wait,
                                         wh_tessera_wish *wish) {
    wh_tessera_header *header = wh_tessera_header_(*g);
    wh_tessera_shard *own = wh_tessera_shard_at_(*g, shard);
    const uint64_t wait_ns =
        (uint64_t)header->growing.wait_us * 1000 >> (wish->soon != 0 ? WH_TESSERA_SOON_LOG2 : 0);
    uint32_t over = 0, count = wish->count, grown = 0;
    uint64_t since = 0;
    wait->row = 0;
    WH_NO_UNROLL
    for (uint32_t attempt = 0; !grown && over == 0; attempt++) {
        if (wh_lane_id() == leader) {
            count = wh_load_u32_relaxed(&header->growing.count);
            grown = count != wish->count;
            wait->none = 0;
            if (!grown) {
                over = wh_tessera_look_for_host_(*g, own, wait);
                grown = wait->row != 0;
            }
            if (!grown && over == 0) {
                const uint64_t now = wh_time_ns();
                since = attempt == 0 ? now : since;
                over = wait->none && now - since > wait_ns ? WH_TESSERA_TIMED_OUT : 0;
            }
        }
        grown = wh_shfl_u32(mask, grown, leader);
        over = wh_shfl_u32(mask, over, leader);
        if (!grown && over == 0) {
            wh_backoff(attempt);
        }
    }
    wait->row = wh_shfl_u64(mask, wait->row, leader);
    wish->count = wh_shfl_u32(mask, count, leader) + (wait->row != 0);
    return over;
}

/* Waits for growth by `chunks` chunks in a row, for those lanes of mask that say so (waits): until
 * lanes have taken as many since it began, or asked. The time begins anew whenever parts come. Who
 * has many lanes takes a part for each four of them, more than it needs: others wait for less.
 * 1: there is more than before, look again. 0: none. Who waited may be to wait no more
 * (wish->over), in either case. All lanes of mask. */
WH_FN_SLOW int wh_tessera_grow_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                uint64_t chunks, int waits, wh_tessera_wish *wish) {
    wh_assert_internal(wh_tessera_in_mask_(mask) && chunks != 0);
    wh_tessera_header *header = wh_tessera_header_(*g);
    waits = waits && wish->over == 0;
    const wh_mask waiting = wh_ballot(mask, waits);
    if (waiting == 0) {
        return 0;
    }
    const uint32_t leader = wh_mask_leader(waiting);
    const uint32_t needs = wh_tessera_in_steps_(chunks, wh_tessera_part_log2_(*g));
    const uint32_t can = wh_popc32(mask) >> 2;
    wh_tessera_awaited wait;
    wait.n = wh_tessera_in_steps_(chunks, wh_tessera_unit_log2_(*g));
    wait.parts = needs > can ? needs : can;
    wait.number = wh_load_u32_relaxed(&header->growing.asked) + 1;
    wait.from = wh_load_u32_relaxed(&header->growing.taken);
    uint32_t over = 0, more = 0, came = 0;
    WH_NO_UNROLL
    do {
        over = wh_tessera_wait_for_host_(g, mask, shard, leader, &wait, wish);
        if (wait.row != 0) {
            WH_PLANT(tessera_p12_lanes, wh_syncwarp(mask), (void)0); /* P12 */
            wh_tessera_put_row_(g, mask, wait.row);
            wh_syncwarp(mask);
            if (wh_lane_id() == leader) {
                WH_PLANT(tessera_i10_take, wh_tessera_end_take_(wh_tessera_shard_at_(*g, shard)),
                         (void)0);
            }
        }
        more |= over == 0;
        came = wh_load_u32_relaxed(&header->growing.taken) - wait.from;
        came = wh_shfl_u32(mask, came, leader);
    } while (over == 0 && came != 0 && came < needs); /* 0: those were taken before */
    waits = waits && (wish->soon == 0 || over != WH_TESSERA_TIMED_OUT);
    wish->over = waits ? over : wish->over;
    return more != 0;
}

/* The same before a search of the whole pool, for lanes of mask that say so (asks), each a few
 * times: units that are posted are there sooner than a run is found in a large pool. It waits for a
 * part of the time only, since the pool may have what is wanted. A host that has refused so many
 * units is asked behind the search. */
WH_FN int wh_tessera_grow_soon_(const wh_tessera_core *g, wh_mask mask, uint32_t shard,
                                uint64_t chunks, int asks, wh_tessera_wish *wish) {
    const uint64_t answer = wh_load_u64_relaxed(&wh_tessera_header_of_(g)->growing.answer);
    const uint32_t n = wh_tessera_in_steps_(chunks, wh_tessera_unit_log2_(*g));
    const int waits = asks && !wh_tessera_refuses_(answer, n);
    wish->soon = 1;
    const int more = wh_tessera_grow_(g, mask, shard, chunks, waits, wish);
    wish->soon = 0;
    if (asks) {
        wish->grows = more ? wish->grows - 1 : 0;
    }
    return more;
}

#include "warpheap/detail/simt/end.h"

#endif
