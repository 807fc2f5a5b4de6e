/* activemask.c: whom a wh_activemask names, and when. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

static bool same_site(const char *a, const char *b) {
    return a == b || strcmp(a, b) == 0;
}

/* Whether site a comes first in the program text. */
static bool site_before(const char *a, const char *b) {
    const char *la = strrchr(a, ':'), *lb = strrchr(b, ':');
    const size_t na = (size_t)(la - a), nb = (size_t)(lb - b);
    if (na != nb || memcmp(a, b, na) != 0) {
        return strcmp(a, b) < 0;
    }
    return atoi(la + 1) < atoi(lb + 1);
}

uint32_t whi_activemask_ticks(whi_engine *e, const whi_warp *w) {
    const uint32_t live = wh_popc32(w->live);
    uint32_t ticks;
    if (e->policy_mode == WHI_MODE_ROUND_ROBIN) {
        ticks = 32u * live;
    } else {
        const uint32_t r = whi_random_below(e, 16);
        ticks = r < 4 ? 0 : (live << (r % 4) * 2) >> 2; /* live/4, live, 4 live, 16 live */
        ticks += r >= 4;
    }
    return e->log != NULL ? whi_log_ticks(e, ticks) : ticks;
}

/* After so many choices that passed it over a lane's call site comes first: a loop with
 * wh_activemask in it must not keep lanes that stand further on from ever being named. */
#define MOST_PASSED 64u

/* Whom the waiting lanes' wh_activemask names. Round robin: all lanes of one call
 * site, that which comes first in the text, since lanes that left a loop early stand
 * further on. Otherwise a seeded choice; must: a lane to be named, or 0. */
static uint32_t choose_mask(whi_engine *e, whi_warp *w, uint32_t must) {
    const bool random = e->policy_mode != WHI_MODE_ROUND_ROBIN;
    uint32_t named = must != 0 ? must : 1u << wh_ctz32(w->am_wait);
    if (random && must == 0) {
        for (uint32_t skip = whi_random_below(e, wh_popc32(w->am_wait)), m = w->am_wait; skip > 0;
             skip--) {
            m &= m - 1;
            named = 1u << wh_ctz32(m);
        }
    } else if (!random) {
        for (uint32_t m = w->am_wait; m != 0; m &= m - 1) {
            if (site_before(w->lanes[wh_ctz32(m)].site, w->lanes[wh_ctz32(named)].site)) {
                named = 1u << wh_ctz32(m);
            }
        }
        for (uint32_t m = w->am_wait; m != 0; m &= m - 1) {
            if (w->lanes[wh_ctz32(m)].am_passed >= MOST_PASSED) {
                named = 1u << wh_ctz32(m);
                break;
            }
        }
    }
    uint32_t mask = 0;
    for (uint32_t m = w->am_wait; m != 0; m &= m - 1) {
        const uint32_t i = wh_ctz32(m);
        if (same_site(w->lanes[i].site, w->lanes[wh_ctz32(named)].site)) {
            mask |= 1u << i;
        }
    }
    if (random) {
        switch (whi_random_below(e, 4)) {
        case 0:
            mask &= (uint32_t)whi_random(e) | named;
            break;
        case 1:
            mask = named;
            break;
        default:
            break;
        }
    }
    return e->log != NULL ? whi_log_mask(e, w, mask, must) : mask;
}

void whi_activemask_resolve(whi_engine *e, whi_warp *w, uint32_t must) {
    const uint32_t mask = choose_mask(e, w, must);
    whi_schedule_add(e, mask);
    w->am_wait &= ~mask;
    w->am_ticks = 0;
    w->am_scanned = false;
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        whi_lane *l = &w->lanes[wh_ctz32(m)];
        l->result = mask;
        if (l->state == WHI_LANE_IN_ACTIVEMASK) {
            whi_make_runnable(e, l);
        }
    }
    for (uint32_t m = w->am_wait; m != 0; m &= m - 1) {
        w->lanes[wh_ctz32(m)].am_passed++;
    }
    while (w->am_wait != 0 && w->am_ticks == 0) {
        w->am_ticks = whi_activemask_ticks(e, w);
    }
}
