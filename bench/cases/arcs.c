/* arcs.c: arcs of generated graphs. */
#include "bench/cases/dgraph.h"

uint64_t whi_dgraph_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 31) * 0x7fb5d329728ea185u;
    z = (z ^ z >> 27) * 0x81dadef4bc2dd44du;
    return z ^ z >> 33;
}

/* By R-MAT with the usual shares 0.57, 0.19, 0.19, 0.05 (Chakrabarti et al., 2004). */
void whi_dgraph_random_arc(uint64_t *random, uint32_t scale, int is_rmat, uint32_t *from,
                           uint32_t *to) {
    if (!is_rmat) {
        *from = (uint32_t)whi_dgraph_random(random) & ((1u << scale) - 1);
        *to = (uint32_t)whi_dgraph_random(random) & ((1u << scale) - 1);
        return;
    }
    *from = *to = 0;
    for (uint32_t k = 0; k < scale; k++) {
        const uint32_t percent = (uint32_t)(whi_dgraph_random(random) % 100);
        *from = *from << 1 | (percent >= 76);
        *to = *to << 1 | ((percent >= 57 && percent < 76) || percent >= 95);
    }
}
