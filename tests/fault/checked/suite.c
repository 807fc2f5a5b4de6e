/* suite.c: the suite of fault_checked: which tests of tests/unit/checked.c find which faults. */
#include "fault/checked/checked.h"

#include <stddef.h>

static const workload workloads[] = {
    {"bugs", checked_main, "test_bugs"},
    {"hands", checked_main, "test_hands"},
    {"full", checked_main, "test_full"},
    {"never-null", checked_main, "test_never_null"},
    {"full-list", checked_main, "test_full_list"},
    {"read-meanwhile", checked_main, "test_read_meanwhile"},
    {.name = NULL},
};

static const fault faults[] = {
    {"tessera_r1", "bugs", EVERYWHERE},
    {"tessera_r2", "hands", EVERYWHERE},
    {"tessera_r3_empty", "full", EVERYWHERE},
    {"tessera_r3_events", "never-null", EVERYWHERE},
    {"record_i1_full", "full-list", EVERYWHERE},
    {"tessera_p14_keep", "hands", WEAK_MEMORY},
    {"tessera_p14_oldest", "hands", WEAK_MEMORY},
    {"tessera_p15_malloc", "hands", WEAK_MEMORY},
    {"tessera_p15_free", "hands", WEAK_MEMORY},
    {"record_p16_ready", "read-meanwhile", UNDER_TSAN},
    {"record_p16_taken", "read-meanwhile", UNDER_TSAN},
    {NULL, NULL, EVERYWHERE},
};

const suite fault_checked = {"checked", workloads, faults, 20000000, 0, 1};
