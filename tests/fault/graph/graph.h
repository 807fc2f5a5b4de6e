/* graph.h: what the files of the program fault_graph share: a graph on a device of its own, and a
 * naive model of it. A workload plays with both, and compares them; fault.c plants the faults.
 *
 * To plant a fault: WH_PLANT(tag, good, bad) in the code, and a row in graph.c. */
#ifndef WH_TESTS_FAULT_GRAPH_H
#define WH_TESTS_FAULT_GRAPH_H

#include <stdio.h>
#include <string.h>

#include "fault/suite.h"
#include "warpheap/graph_algorithms.h"
#include "warpheap/graph_device.h"
#include "warpheap/graph_vertices.h"

#define MOST 40u       /* vertices */
#define MOST_ARCS 700u /* of a batch */
#define MOST_ALL 8000u /* of a graph */
#define VALUES 2u

struct game;

typedef struct workload {
    const char *name;
    int (*play)(struct game *g); /* 0: nothing wrong */
    wh_graph_options options;    /* but for the heap */
} workload;

typedef struct game {
    const workload *w;
    uint64_t seed, random;
    wh_device *device;
    wh_heap *heap;
    wh_graph *graph;
    wh_graph_options options;
    uint32_t n; /* ids */
    /* the model: arcs, and their first value; of copies the sum */
    uint32_t copies[MOST][MOST], value[MOST][MOST];
    /* a batch */
    uint32_t from[MOST_ARCS], to[MOST_ARCS], values[VALUES][MOST_ARCS], n_arcs;
    uint8_t erases[MOST_ARCS], done[MOST_ARCS];
    /* all arcs, in and out */
    uint64_t offset[MOST + 1];
    uint32_t all[MOST_ALL], all_values[VALUES][MOST_ALL];
} game;

/* Says where something is wrong: 1. */
static inline int is_wrong(const char *file, int line, const char *text) {
    fprintf(stderr, "%s:%d: not so: %s; %s\n", file, line, text, wh_last_error_text());
    return 1;
}

#define EXPECT(x)                                    \
    do {                                             \
        if (!(x)) {                                  \
            return is_wrong(__FILE__, __LINE__, #x); \
        }                                            \
    } while (0)

/* A step that has found something wrong ends its workload. */
#define PLAY(step)         \
    do {                   \
        if ((step) != 0) { \
            return 1;      \
        }                  \
    } while (0)

uint32_t draw(game *g, uint32_t n); /* below n */
uint64_t expected_arcs(const game *g);

/* Compares the graph with the model. */
int compare(game *g);

/* A batch of random arcs, from the first `sources` vertices, in, out, or mixed. */
void draw_arcs(game *g, uint32_t n, uint32_t sources);
int send_insert(game *g);
int send_erase(game *g);
wh_graph_batch batch_of(game *g);

/* The workloads. */
int play_batches(game *g);
int play_arrays(game *g);
int play_full(game *g);
int play_full_arrays(game *g);
int play_lanes(game *g);
int play_vertices(game *g);
int play_copies(game *g);
int play_walks(game *g);

extern const suite fault_graph;
#define FAULT_SUITES &fault_graph

#endif
