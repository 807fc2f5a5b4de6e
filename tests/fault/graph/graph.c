/* graph.c: the suite of fault_graph: what is played, and which faults it finds. */
#include "fault/graph/graph.h"

#define OF(kind_, ...) \
    { .kind = (kind_), .vertices = MOST, __VA_ARGS__ }

static const workload workloads[] = {
    {"sets", play_batches, OF("lattice", .worker = 0)},
    {"sets-undirected", play_batches, OF("lattice", .undirected = 1)},
    {"values", play_batches, OF("lattice", .values = 2)},
    {"sorted", play_batches, OF("lattice", .values = 1, .sorted = 1)},
    {"values-undirected", play_batches, OF("lattice", .values = 2, .undirected = 1)},
    {"multi", play_batches, OF("lattice", .multi = 1, .values = 1)},
    {"multi-sorted", play_batches, OF("lattice", .multi = 1, .sorted = 1, .values = 1)},
    {"ouro", play_batches, OF("ouro", .worker = 0)},
    {"faim", play_batches, OF("faim", .worker = 0)},
    {"faim-lane", play_batches, OF("faim-update", .worker = 1)},
    {"faim-warp", play_batches, OF("faim-update", .worker = 32)},
    {"aim-lane", play_batches, OF("aim", .worker = 1, .arena_bytes = 1024)},
    {"aim-warp", play_batches, OF("aim", .worker = 32, .arena_bytes = 1024)},
    {"arrays", play_arrays, OF("lattice", .worker = 0)},
    {"arrays-sorted", play_arrays, OF("lattice", .sorted = 1, .values = 1)},
    {"arrays-multi", play_arrays, OF("lattice", .multi = 1)},
    {"arrays-faim", play_arrays, OF("faim", .worker = 0)},
    {"full", play_full, OF("lattice", .worker = 0)},
    {"full-values", play_full, OF("lattice", .values = 2)},
    {"full-faim", play_full, OF("faim", .worker = 0)},
    {"full-aim", play_full, OF("aim", .worker = 1, .arena_bytes = 256)},
    {"lanes", play_lanes, OF("lattice", .worker = 0)},
    {"vertices", play_vertices, {.kind = "lattice", .vertices = 0, .most_vertices = MOST}},
    {"vertices-faim", play_vertices, {.kind = "faim", .vertices = 0, .most_vertices = MOST}},
    {"copies", play_copies, {.kind = "lattice", .vertices = 6, .multi = 1}},
    {"walks", play_walks, OF("lattice", .worker = 0)},
    {"walks-undirected", play_walks, OF("lattice", .undirected = 1)},
    {.name = NULL},
};

static const fault faults[] = {
    {NULL, NULL, EVERYWHERE},
};

const suite fault_graph = {"graph", workloads, faults, 20000000, 16};
