/* arena.c: the suite of fault_arena: which tests of tests/arena find which faults. */
#include "fault/arena/arena.h"

#include <stddef.h>

static const workload workloads[] = {
    {"lane", model_main, "test_lane"},
    {"warp", model_main, "test_warp"},
    {"half", model_main, "test_half"},
    {"block", model_main, "test_block"},
    {"full", model_main, "test_full"},
    {"lane-places", calls_main, "test_lane_places"},
    {"warp-places", calls_main, "test_warp_places"},
    {"block-places", calls_main, "test_block_places"},
    {"lane-pieces", calls_main, "test_lane_pieces"},
    {"goes-on", calls_main, "test_goes_on"},
    {"hands", calls_main, "test_hands"},
    {"spares", calls_main, "test_spares"},
    {"items", calls_main, "test_items"},
    {"spare", calls_main, "test_spare"},
    {"full-heap", calls_main, "test_full"},
    {"word", calls_main, "test_word"},
    {.name = NULL},
};

static const fault faults[] = {
    {"arena_round", "lane", EVERYWHERE},
    {"arena_most", "lane-pieces", EVERYWHERE},
    {"arena_close_spare", "lane", EVERYWHERE},
    {"arena_old_spare", "lane", EVERYWHERE},
    {"arena_warp_close_spare", "warp", EVERYWHERE},
    {"arena_warp_old_spare", "goes-on", EVERYWHERE},
    {"arena_turns", "warp", EVERYWHERE},
    {"arena_spare_fits", "lane", EVERYWHERE},
    {"arena_less", "full-heap", EVERYWHERE},
    {"arena_i3_below", "lane", EVERYWHERE},
    {"arena_room", "goes-on", EVERYWHERE},
    {"arena_fits", "lane", EVERYWHERE},
    {"arena_i1_bump", "lane", EVERYWHERE},
    {"arena_rewind_at", "goes-on", EVERYWHERE},
    {"arena_before", "warp", EVERYWHERE},
    {"arena_alone", "full-heap", EVERYWHERE},
    {"arena_mates", "block-places", EVERYWHERE},
    {"arena_word_fits", "word", EVERYWHERE},
    {"arena_i1_lost", "block", EVERYWHERE},
    {"arena_push", "block", EVERYWHERE},
    {"arena_hand", "block", EVERYWHERE},
    {"arena_spare_back", "spares", EVERYWHERE},
    {"arena_header_there", "warp", UNDER_TSAN},
    {"arena_header_read", "warp", UNDER_TSAN},
    {"arena_p1_free", "warp", UNDER_TSAN},
    {"arena_p1_rewind", "warp", UNDER_TSAN},
    {"arena_p2_word", "hands", UNDER_TSAN},
    {"arena_p2_lanes", "hands", UNDER_TSAN},
    {"arena_p4_back", "spares", UNDER_TSAN},
    {"arena_p3_open", "block", UNDER_TSAN},
    {"arena_p3_before", "block", UNDER_TSAN},
    {"arena_p3_after", "block", UNDER_TSAN},
    {"arena_p3_close", "block", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_arena = {"arena", workloads, faults, 20000000, 0, 1};
