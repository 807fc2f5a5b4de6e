/* ops.c: the suite of fault_ops: which tests of tests/ops find which faults. */
#include "fault/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const workload workloads[] = {
    {"join-random", join_main, "test_random"},
    {"join-edges", join_main, "test_edges"},
    {"join-full", join_main, "test_full_heap"},
    {"join-parts", join_main, "test_no_room_for_parts"},
    {"join-back", join_main, "test_parts_go_back"},
    {"group-random", group_main, "test_random"},
    {"group-edges", group_main, "test_edges"},
    {"group-floats", group_main, "test_floats"},
    {"group-full", group_main, "test_full_heap"},
    {"group-lists", group_main, "test_lists"},
    {"group-left", group_main, "test_left_alone"},
    {"group-few", edges_main, "test_aggregates"},
    {"group-block", edges_main, "test_one_block"},
    {"group-nan", edges_main, "test_nan"},
    {"group-digit", edges_main, "test_last_digit"},
#ifdef FAULT_GROWS
    {"group-grow", group_main, "test_grow"},
#endif
    {.name = NULL},
};

static const fault faults[] = {
    {"chains_places_first", "join-random", EVERYWHERE},
    {"chains_i1_spare", "group-block", EVERYWHERE},
    {"chains_p2_ordinal", "join-edges", EVERYWHERE},
    {"chains_p2_link", "group-random", EVERYWHERE},
    {"chains_p2_links", "group-random", EVERYWHERE},
    {"chains_p1_back", "join-parts", EVERYWHERE},
    {"chains_p1_take", "join-random", UNDER_TSAN},
    {"chains_p1_full", "join-parts", EVERYWHERE},
    {"chains_p1_refused", "group-full", EVERYWHERE},
    {"chains_nowhere", "join-parts", EVERYWHERE},
    {"chains_failed", "join-parts", EVERYWHERE},
    {"chains_p1_last", "join-edges", EVERYWHERE},
    {"chains_p1_bring", "join-random", UNDER_TSAN},
    {"chains_p1_take_one", "group-digit", UNDER_TSAN},
    {"chains_p1_full_one", "group-digit", EVERYWHERE},
    {"chains_p1_bring_one", "group-digit", UNDER_TSAN},
    {"chains_p1_own", "group-digit", EVERYWHERE},
    {"chains_p1_refused_one", "group-lists", EVERYWHERE},
    {"chains_placed", "join-parts", EVERYWHERE},
    {"chains_b1_placed", "join-random", EVERYWHERE},
    {"chains_rows", "group-lists", EVERYWHERE},
    {"units_tiles", "join-random", EVERYWHERE},
    {"units_alone", "join-edges", EVERYWHERE},
    {"units_end", "join-random", EVERYWHERE},
    {"units_chunk", "join-random", EVERYWHERE},
    {"units_chunks", "join-random", EVERYWHERE},
    {"units_p1_gone", "join-parts", EVERYWHERE},
    {"units_p1_left", "join-edges", UNDER_TSAN},
    {"units_p1_last", "join-parts", EVERYWHERE},
    {"units_p1_back", "join-back", EVERYWHERE},
    {"units_save_all", "join-back", EVERYWHERE},
    {"units_save_step", "join-parts", EVERYWHERE},
    {"units_save_at", "join-parts", EVERYWHERE},
    {"units_save_done", "join-back", EVERYWHERE},
    {"units_save_phase", "join-back", EVERYWHERE},
    {"units_save_full", "join-full", EVERYWHERE},
    {"units_restore_once", "join-parts", EVERYWHERE},
    {"units_p1_again", "join-back", EVERYWHERE},
    {"units_order_pages", "join-parts", EVERYWHERE},
    {"units_lay_pages", "join-random", EVERYWHERE},
    {"partition_last", "join-random", EVERYWHERE},
    {"partition_placed", "join-parts", EVERYWHERE},
    {"partition_at", "join-random", EVERYWHERE},
    {"partition_over", "join-parts", EVERYWHERE},
    {"partition_bits", "join-parts", EVERYWHERE},
    {"partition_stay", "join-parts", EVERYWHERE},
    {"partition_b1_next", "join-random", UNDER_TSAN},
    {"partition_tile", "join-full", EVERYWHERE},
    {"pages_o2_rows", "join-random", EVERYWHERE},
    {"pages_o2_number", "join-random", UNDER_TSAN},
    {"pages_o2_turn", "join-full", EVERYWHERE},
    {"pages_o2_turn_lane", "join-edges", EVERYWHERE},
    {"pages_o2_close", "join-random", EVERYWHERE},
    {"pages_compact_at", "join-random", EVERYWHERE},
    {"pages_drop", "join-random", EVERYWHERE},
    {"probe_c1_cleared", "join-random", EVERYWHERE},
    {"probe_c1_filled", "join-random", EVERYWHERE},
    {"probe_put_lane", "join-full", EVERYWHERE},
    {"probe_put_tie", "join-random", EVERYWHERE},
    {"probe_put_some", "join-parts", EVERYWHERE},
    {"probe_once", "join-parts", EVERYWHERE},
    {"probe_start", "join-parts", EVERYWHERE},
    {"probe_c2_seen", "join-random", EVERYWHERE},
    {"probe_c2_out", "join-parts", EVERYWHERE},
    {"probe_c2_read", "join-random", UNDER_TSAN},
    {"probe_again", "join-parts", EVERYWHERE},
    {"probe_alone_end", "join-edges", EVERYWHERE},
    {"probe_alone_out", "join-parts", EVERYWHERE},
    {"probe_c2_alone", "join-random", UNDER_TSAN},
    {"probe_alone_again", "join-parts", EVERYWHERE},
    {"probe_b1_stopped", "join-full", EVERYWHERE},
    {"probe_b1_known", "join-back", UNDER_TSAN},
    {"probe_chunks", "join-parts", EVERYWHERE},
    {"probe_c2_begin", "join-edges", EVERYWHERE},
    {"probe_rows", "join-random", EVERYWHERE},
    {"probe_pairs", "join-random", EVERYWHERE},
    {"probe_stopped", "join-full", EVERYWHERE},
    {"probe_close", "join-edges", EVERYWHERE},
    {"join_begin_tile", "join-random", EVERYWHERE},
    {"join_begin_placed", "join-edges", EVERYWHERE},
    {"join_begin_stops", "join-random", EVERYWHERE},
    {"join_written", "join-random", EVERYWHERE},
    {"join_parts_needed", "join-parts", EVERYWHERE},
    {"join_parts_both", "join-edges", EVERYWHERE},
    {"join_parts_gone", "join-edges", EVERYWHERE},
    {"blocks_double", "group-edges", EVERYWHERE},
    {"blocks_carry", "group-edges", EVERYWHERE},
    {"blocks_tail", "group-random", EVERYWHERE},
    {"blocks_may", "group-full", EVERYWHERE},
    {"blocks_tiles", "group-random", EVERYWHERE},
    {"blocks_slots", "group-random", EVERYWHERE},
    {"blocks_failed", "group-random", EVERYWHERE},
    {"blocks_empty", "group-random", EVERYWHERE},
    {"blocks_walk_read", "group-few", UNDER_TSAN},
    {"blocks_other", "group-random", EVERYWHERE},
    {"blocks_r3_free", "group-random", EVERYWHERE},
    {"blocks_i1_next", "group-random", EVERYWHERE},
    {"blocks_full_page", "group-random", EVERYWHERE},
    {"blocks_r2_child", "group-random", EVERYWHERE},
    {"rows_nan", "group-nan", EVERYWHERE},
    {"rows_negative", "group-edges", EVERYWHERE},
    {"rows_sign", "group-random", EVERYWHERE},
    {"rows_count", "group-random", EVERYWHERE},
    {"table_s1_zero", "group-random", EVERYWHERE},
    {"table_s1_cas", "group-few", EVERYWHERE},
    {"table_sum", "group-random", EVERYWHERE},
    {"table_s3", "group-edges", EVERYWHERE},
    {"table_least", "group-edges", EVERYWHERE},
    {"table_s2_most", "group-few", EVERYWHERE},
    {"table_s1_zero_out", "group-random", EVERYWHERE},
    {"table_s2_sum", "group-edges", EVERYWHERE},
    {"table_s2_least", "group-edges", EVERYWHERE},
    {"table_add_most", "group-few", EVERYWHERE},
    {"table_others", "group-random", EVERYWHERE},
    {"table_add_least", "group-few", EVERYWHERE},
    {"table_add_sum", "group-few", EVERYWHERE},
    {"table_r1_slot", "group-full", EVERYWHERE},
    {"table_b1_counted", "group-random", EVERYWHERE},
    {"table_bits_read", "group-few", UNDER_TSAN},
    {"steps_last", "group-block", EVERYWHERE},
    {"rows_avg", "group-edges", EVERYWHERE},
    {"steps_put_tie", "group-random", EVERYWHERE},
    {"steps_put_some", "group-full", EVERYWHERE},
    {"steps_zero", "group-random", EVERYWHERE},
    {"steps_r1_out", "group-full", EVERYWHERE},
    {"steps_r3_spill", "group-full", EVERYWHERE},
    {"steps_close", "group-random", EVERYWHERE},
    {"lists_bits_read", "group-digit", UNDER_TSAN},
    {"lists_r1_bits", "group-lists", EVERYWHERE},
    {"lists_r1_full", "group-lists", EVERYWHERE},
    {"lists_number", "group-digit", UNDER_TSAN},
    {"lists_levels", "group-digit", EVERYWHERE},
    {"lists_r3_stay", "group-lists", EVERYWHERE},
    {"group_begin_children", "group-edges", EVERYWHERE},
    {"group_begin_stage", "group-random", EVERYWHERE},
    {"group_written", "group-block", EVERYWHERE},
    {"group_lists_gone", "group-digit", EVERYWHERE},
    {"group_lists_old", "group-lists", EVERYWHERE},
    {"group_chains_left", "group-left", EVERYWHERE},
    {"blocks_restore", "group-full", EVERYWHERE},
    {"blocks_r3_gone", "group-digit", EVERYWHERE},
    {"table_r1_bits", "group-full", EVERYWHERE},
#ifdef FAULT_GROWS
    {"blocks_walk_most", "group-grow", EVERYWHERE},
    {"group_rebase_list", "group-grow", EVERYWHERE},
    {"group_rebase_chains", "group-grow", EVERYWHERE},
    {"group_rebase_saved", "group-grow", EVERYWHERE},
#endif
    {NULL, NULL, EVERYWHERE},
};

const suite fault_ops = {"ops", workloads, faults, 20000000, 0, 1};

/* A test in one worker, so that it repeats; a kernel, or the host, that does not end is found, too.
 * What cmocka says goes where errors go: the caller reads the output. */
int fault_run(const suite *of, const workload *w, uint64_t seed) {
    char program[] = "ops", sim[64], test[64];
    char *argv[] = {program, test, NULL};
    const char *planted = getenv("WH_FAULT");
    (void)seed;
    (void)snprintf(sim, sizeof sim, "budget=%llu,workers=1", (unsigned long long)of->step_budget);
    (void)snprintf(test, sizeof test, "%s", w->test);
    if (fflush(stdout) != 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        setenv("WH_SIM", sim, 0) != 0) {
        return 1;
    }
    if (planted != NULL && strcmp(planted, "none") != 0) {
        (void)alarm(getenv("WH_TEST_SEEDS") == NULL ? 60 : 600); /* ten seeds take some seconds */
        if (setenv("WH_TEST_SEEDS", "10", 0) != 0) {
            return 1;
        }
    }
    return w->run(2, argv) != 0;
}
