/* alloc/record.h: how a lane notes a record in a box, memory of the host that the device sees.
 * Internal: may change.
 *
 * tickets  cas, relaxed, by a lane that gets a row: the record's number. Row number % n_rows is its
 *          own from then on
 * counts   add, relaxed
 * taken    store release, system scope, by the host, behind its last look at the rows below it
 * row      its fields: plain stores of the lane with the number; `ready`: its last store, release,
 *          system scope
 *
 * I1       a row is given again only when the host has read it: a lane gets number t only if
 *          t - taken < n_rows. So no record is lost that got a row, and none has two writers
 * P16      the record's fields, then `ready`, store release, system -> the host's load of `ready`,
 *          acquire; and the host's reads, then `taken`, store release -> a lane's load of `taken`,
 *          acquire, system, before it gets a row
 *
 * Progress lock-free: a cas fails only if another lane has got a row
 * Cost     a few atomics and about 40 stores to memory of the host. Nothing while nothing is noted
 * Check    tests/unit/checked.c, tests/fault/checked
 */
#ifndef WH_ALLOC_RECORD_H
#define WH_ALLOC_RECORD_H

#include "warpheap/detail/alloc/contract.h"

#include "warpheap/detail/simt/begin.h"

/* --- sites ----------------------------------------------------------------------------------
 *
 * A place in the program in 64 bits: 0: not known; bit 63: a tag, in the low half; else the address
 * of the file's name << 16 | line, where both fit. */

#define WH_SITE_TAG ((uint64_t)1 << 63)
typedef uint64_t wh_site;

WH_HD wh_site wh_site_of_tag(uint32_t tag) {
    return tag != 0 ? WH_SITE_TAG | tag : 0;
}
WH_HD wh_site wh_site_of(const char *file, uint32_t line) {
    const uint64_t at = (uint64_t)(uintptr_t)file;
    return at >> 47 == 0 && line >> 16 == 0 ? at << 16 | line : wh_site_of_tag(line);
}

/* --- rows ----------------------------------------------------------------------------------- */

WH_FN wh_record_row *wh_record_row_(wh_record_box *box, uint64_t number) {
    wh_record_row *rows = (wh_record_row *)(void *)(box + 1);
    return &rows[number & (box->n_rows - 1)];
}

/* Counts an event, and gets a row for it: *number; NULL: there is none. */
WH_FN wh_record_row *wh_record_begin_(wh_record_box *box, uint32_t kind, uint64_t *number) {
    wh_add_u64_relaxed(&box->counts[kind], 1);
    uint64_t t = wh_load_u64_relaxed(&box->tickets);
    WH_NO_UNROLL
    for (;;) {
        const uint64_t taken = WH_PLANT(record_p16_taken, wh_load_u64_system,
                                        wh_load_u64_relaxed)(&box->taken); /* P16 */
        if (WH_PLANT(record_i1_full, t - taken >= box->n_rows, 0)) {
            return NULL; /* I1 */
        }
        const uint64_t seen = wh_cas_u64_relaxed(&box->tickets, t, t + 1);
        if (seen == t) {
            *number = t;
            return wh_record_row_(box, t);
        }
        t = seen;
    }
}

/* The last store to a row. */
WH_FN void wh_record_end_(wh_record_row *row, uint64_t number) {
    WH_PLANT(record_p16_ready, wh_store_u64_system, wh_store_u64_relaxed)
    (&row->ready, number + 1); /* P16 */
}

/* The place as the host prints it: the end of the file's name, which lies in memory of the program
 * that the lane runs. A number of 16 bits, where a wh_site was to be, has no file either. */
WH_FN_SLOW void wh_record_put_site_(wh_record_site *to, wh_site site) {
    const int is_tag = (site & WH_SITE_TAG) != 0 || site >> 16 == 0;
    const char *file = (const char *)(uintptr_t)(site >> 16);
    uint32_t n = 0;
    to->line = is_tag ? (uint32_t)site : (uint32_t)site & 0xffff;
    if (!is_tag) {
        WH_NO_UNROLL
        while (file[n] != '\0') {
            n++;
        }
        file += n < sizeof to->file ? 0 : n - (sizeof to->file - 1);
        n = n < sizeof to->file ? n : (uint32_t)sizeof to->file - 1;
    }
    WH_NO_UNROLL
    for (uint32_t i = 0; i < sizeof to->file; i++) {
        to->file[i] = i < n ? file[i] : '\0';
    }
}

#include "warpheap/detail/simt/end.h"

#endif
