/* layout.c: the hash by which a program and the library tell whether they lay heaps out in the same
 * way: not the same for any two families, another one for any field that moves, and another one in
 * the hostile build. This file is compiled a second time, with LAYOUT_OTHER, as the hostile build
 * would be if this is not one, and the other way around. */
#ifdef LAYOUT_OTHER
#ifdef WH_HOSTILE
#undef WH_HOSTILE
#else
#define WH_HOSTILE 1
#endif
#endif

#include "sim/sim_test.h"

#include "warpheap/detail/alloc/bulk/bulk.h"
#include "warpheap/detail/alloc/bump/bump.h"
#include "warpheap/detail/alloc/circular/circular.h"
#include "warpheap/detail/alloc/dynasoar/dynasoar.h"
#include "warpheap/detail/alloc/fdgmalloc/fdgmalloc.h"
#include "warpheap/detail/alloc/floor/floor.h"
#include "warpheap/detail/alloc/gallatin/gallatin.h"
#include "warpheap/detail/alloc/halloc/halloc.h"
#include "warpheap/detail/alloc/kma/kma.h"
#include "warpheap/detail/alloc/list.h"
#include "warpheap/detail/alloc/null/null.h"
#include "warpheap/detail/alloc/ouroboros/ouroboros.h"
#include "warpheap/detail/alloc/page_queue/page_queue.h"
#include "warpheap/detail/alloc/random_walk/random_walk.h"
#include "warpheap/detail/alloc/rwmalloc/rwmalloc.h"
#include "warpheap/detail/alloc/scatteralloc/scatteralloc.h"
#include "warpheap/detail/alloc/tessera/tessera.h"
#include "warpheap/detail/alloc/xmalloc/xmalloc.h"

/* One of each family, and of what is laid out in another way. */
/* clang-format off */
#define FAMILIES(X) \
    X(tessera) X(null) X(floor) X(bump) X(gallatin) X(ouro_s_p) X(rw) X(page_queue) X(rwmalloc) \
    X(awmalloc) X(cmalloc) X(scatteralloc) X(halloc) X(fdgmalloc) X(bulk) X(kma) X(dynasoar)
/* clang-format on */

#define LAYOUT_(ident) wh_##ident##_layout(),
#define COUNT_(ident) +1
enum { N_FAMILIES = 0 FAMILIES(COUNT_) };

#ifdef LAYOUT_OTHER

void layouts_of_the_other_build(uint64_t *hashes);
void layouts_of_the_other_build(uint64_t *hashes) {
    const uint64_t all[] = {FAMILIES(LAYOUT_)};
    memcpy(hashes, all, sizeof all);
}

#else

#include "host/alloc_ops.h"

void layouts_of_the_other_build(uint64_t *hashes);

static void test_families_differ(void **state) {
    const uint64_t here[] = {FAMILIES(LAYOUT_)};
    uint64_t other[N_FAMILIES];
    (void)state;
    layouts_of_the_other_build(other);
    for (uint32_t i = 0; i < N_FAMILIES; i++) {
        for (uint32_t k = 0; k < N_FAMILIES; k++) {
            assert_true(i == k || here[i] != here[k]);
            assert_true(here[i] != other[k]);
        }
    }
}

#define SAME_(ident)                                                                \
    {                                                                               \
        extern const whi_alloc_ops whi_alloc_ops_##ident##_sim;                     \
        assert_true(whi_alloc_ops_##ident##_sim.layout() == wh_##ident##_layout()); \
    }

/* The library was compiled from the same headers. */
static void test_library_agrees(void **state) {
    (void)state;
    FAMILIES(SAME_)
    SAME_(corw)
    SAME_(floor_plain)
    SAME_(cfmmalloc)
    SAME_(ouro_vl_c)
}

static void test_fields(void **state) {
    typedef struct one {
        uint32_t a, b;
    } one;
    typedef struct two {
        uint32_t b, a;
    } two;
    typedef struct three {
        uint32_t a;
        uint16_t b;
    } three;
    const uint64_t in_one[] = {WH_LAYOUT_FIELD(one, a), WH_LAYOUT_FIELD(one, b)};
    const uint64_t in_two[] = {WH_LAYOUT_FIELD(two, a), WH_LAYOUT_FIELD(two, b)};
    const uint64_t in_three[] = {WH_LAYOUT_FIELD(three, a), WH_LAYOUT_FIELD(three, b)};
    const uint64_t hash = wh_layout_hash("x", in_one, 2);
    (void)state;
    assert_true(hash == wh_layout_hash("x", in_one, 2));
    assert_true(hash != wh_layout_hash("x", in_two, 2));
    assert_true(hash != wh_layout_hash("x", in_three, 2));
    assert_true(hash != wh_layout_hash("x", in_one, 1));
    assert_true(hash != wh_layout_hash("y", in_one, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families_differ),
                                       cmocka_unit_test(test_library_agrees),
                                       cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
