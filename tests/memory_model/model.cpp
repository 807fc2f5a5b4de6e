/* model.cpp: small protocols of the library under Relacy, which runs them in all interleavings, or
 * in as many as it is told, and lets loads return what C++11's memory model allows. Each program is
 * a few lanes that use the headers of the library themselves (shim.hpp).
 *
 *   memory_model                all programs, without a fault and with each of their faults
 *   memory_model PROGRAM [FAULT]    one of them; what went wrong is told step by step
 *
 * Without a fault nothing may be found; each fault, a weakened order or a step left out, must be.
 * The exit status is the verdict. */
#include "core_programs.hpp"
#include "tessera_programs.hpp"

#include <cstdio>
#include <iostream>

/* --- the checks ----------------------------------------------------------------------------------
 */

/* How a program is searched: all interleavings and loads, or those with up to so many switches that
 * no wait asks for; or as if every access were sequentially consistent. */
struct how {
    unsigned switches; /* 0: all */
    bool in_order;
};
static const how FULL = {0, false};
static const how BOUND2 = {2, false};
static const how IN_ORDER = {0, true};

struct outcome {
    int found;
    uint64_t executions;
    const char *text;
};

/* Relacy allocates memory in an execution that must not be freed behind it: so no string grows. */
struct nowhere : std::streambuf {
    int overflow(int c) override {
        return c;
    }
};

template <class program> static outcome check(how h, bool tells) {
    static nowhere none;
    std::ostream nobody(&none);
    rl::test_params p;
    shim_in_order = h.in_order;
    p.search_type = h.switches == 0 ? rl::sched_full : rl::sched_bound;
    p.context_bound = h.switches;
    p.iteration_count = (rl::iteration_t)1 << 62;
    p.output_stream = tells ? &std::cout : &nobody;
    p.progress_stream = &nobody;
    p.progress_output_period = 3600;
    p.collect_history = tells;
    p.output_history = false; /* of an execution that failed it is told all the same */
    shim_32.n = shim_64.n = 0;
    program::prepare();
    const bool good = rl::simulate<program>(p);
    outcome o;
    o.found = !good;
    o.executions = p.stop_iteration;
    o.text = rl::test_result_str(p.test_result);
    return o;
}

struct row {
    const char *name;
    outcome (*check)(how h, bool tells);
    how search;
    const char *faults[6];
};
#define ROW(program, how, ...)             \
    {                                      \
#program, check < program>, how, { \
            __VA_ARGS__                    \
        }                                  \
    }

static const row rows[] = {
    ROW(use_word, FULL, "use_p1_release", "use_p1_claim"),
    ROW(veb_message, FULL, "veb_p1_insert"),
    ROW(veb_toggle, FULL, "veb_r1", "veb_p2_insert"),
    ROW(veb_settle, FULL, nullptr),
    ROW(veb_range_message, FULL, "veb_p1_range", "veb_p1_range_claim"),
    ROW(veb_range_toggle, FULL, "veb_r1_range", "veb_p2_range"),
    ROW(veb_seen_one, FULL, nullptr),
    ROW(veb_seen_range, FULL, "veb_p3_range"),
    ROW(ring_message, FULL, "ring_p1_put", "ring_p1_take"),
    ROW(semaphore, FULL, "bulksem_i1", "bulksem_i2"),
    ROW(semaphore_retake, FULL, "bulksem_retake"),
    ROW(chunk_reclaim, FULL, "ring_p1_put", "ring_p1_take"),
    ROW(chunk_split, IN_ORDER, "chunkpool_p2"),
    ROW(slot_message, FULL, "tessera_p1_free", "tessera_p1_take"),
    ROW(slab_reclaim, BOUND2, "tessera_p1_retire", "tessera_p1_free"),
    ROW(slab_listed, FULL, "tessera_i6", "tessera_i6_free", "tessera_p9_look"),
    ROW(slab_of_two_words, BOUND2, "tessera_i5"),
    ROW(growth_posted, FULL, nullptr),
    ROW(growth_refused, BOUND2, "tessera_i10_take"),
};

static int run(const row *r, const char *fault, bool tells) {
    shim_planted = fault;
    const outcome o = r->check(r->search, tells);
    const int good = o.found == (fault != nullptr);
    printf("%-18s %-20s %9llu executions  %s  %s\n", r->name, fault != nullptr ? fault : "-",
           (unsigned long long)o.executions, good ? "as it should" : "WRONG", o.text);
    (void)fflush(stdout);
    return good;
}

int main(int argc, char **argv) {
    int bad = 0, known = 0;
    for (const row &r : rows) {
        if (argc > 1 && strcmp(argv[1], r.name) != 0) {
            continue;
        }
        known++;
        if (argc > 1) {
            bad += !run(&r, argc > 2 ? argv[2] : nullptr, true);
            continue;
        }
        bad += !run(&r, nullptr, false);
        for (const char *fault : r.faults) {
            bad += fault != nullptr && !run(&r, fault, false);
        }
    }
    if (known == 0) {
        fprintf(stderr, "usage: memory_model [PROGRAM [FAULT]]\n");
        return 2;
    }
    return bad != 0;
}
