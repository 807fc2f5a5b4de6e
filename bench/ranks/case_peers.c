/* case_peers.c: the case peers: blocks of one GPU's heap, which kernels of that GPU and of another
 * one allocate and free. One process does it, rank 0, while the others wait; on simulated devices,
 * too. All kernels are those for several GPUs, so what differs is the way to the heap alone:
 *
 *   malloc            by the heap's own GPU
 *   free              by it, of the same blocks; ratio: 1
 *   peer-free         by the other GPU, of blocks that the first one has allocated
 *   peer-malloc       by the other GPU
 *   free-of-peer      by the heap's own GPU, of blocks that the other one has allocated
 *
 * The kernels of one GPU get addresses in its own memory: they are copied by the host. Who frees
 * has looked at every word of the blocks before. */
#include <stdlib.h>
#include <string.h>

#include "bench/kernels/peer_kernels.h"
#include "bench/ranks/ranks.h"
#include "built_list.h"

WH_TABLES_OF(wh_bench_peer_kernels, wh_bench_peer_find, WH_CAP_RESERVE)

#define BLOCK_BYTES 64u
#define HEAP_BYTES_A_BLOCK 256u

enum { MALLOC, FREE, PEER_FREE, PEER_MALLOC, FREE_OF_PEER, N_OPS, UNTIMED };

typedef struct peers {
    const wh_bench_peer_kernels *kernels;
    wh_device *device[2]; /* the heap's, the other one */
    wh_heap *heap;
    wh_bench_peer_call call[2];
    whi_ranks_series series[N_OPS];
    uint64_t bad;
    char left_out[160];
} peers;

static wh_status launch(peers *p, int device, wh_bench_peer_launcher launcher) {
    const uint64_t n = p->call[device].n;
    const uint32_t blocks = (uint32_t)((n + WH_BENCH_BLOCK_THREADS - 1) / WH_BENCH_BLOCK_THREADS);
    const wh_launch l = wh_grid(p->device[device], blocks, WH_BENCH_BLOCK_THREADS);
    return launcher(&l, &p->call[device]);
}

/* By the device's own timer. */
static wh_status timed(peers *p, int device, wh_bench_peer_launcher launcher, int op) {
    double us = 0;
    WHI_BENCH_TRY(wh_device_timer_begin(p->device[device]));
    WHI_BENCH_TRY(launch(p, device, launcher));
    WHI_BENCH_TRY(wh_device_timer_end(p->device[device], &us));
    if (op != UNTIMED) {
        p->series[op].us[p->series[op].n++] = us;
    }
    return WH_OK;
}

static wh_status copy_addresses(peers *p, int from, int to) {
    const uint64_t bytes = p->call[from].n * sizeof(void *);
    void **host = malloc(bytes);
    wh_status s = host != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    s = s == WH_OK ? wh_device_copy_out(p->device[from], host, p->call[from].ptrs, bytes) : s;
    s = s == WH_OK ? wh_device_copy_in(p->device[to], p->call[to].ptrs, host, bytes) : s;
    free(host);
    return s;
}

/* One device allocates, one frees: the same or another one. */
static wh_status round_of(peers *p, const int device[2], const int op[2]) {
    const wh_bench_peer_kernels *k = p->kernels;
    wh_stats stats;
    uint64_t wrong = 0;
    memset(&stats, 0, sizeof stats);
    WHI_BENCH_TRY(timed(p, device[0], k->malloc, op[0]));
    WHI_BENCH_TRY(launch(p, device[0], k->fill));
    WHI_BENCH_TRY(wh_device_sync(p->device[device[0]]));
    if (device[0] != device[1]) {
        WHI_BENCH_TRY(copy_addresses(p, device[0], device[1]));
    }
    WHI_BENCH_TRY(wh_heap_get_stats(p->heap, &stats));
    p->bad += stats.live_blocks != p->call[0].n;
    WHI_BENCH_TRY(launch(p, device[1], k->check));
    WHI_BENCH_TRY(wh_device_copy_out(p->device[device[1]], &wrong, p->call[device[1]].wrong, 8));
    WHI_BENCH_TRY(timed(p, device[1], k->free, op[1]));
    WHI_BENCH_TRY(wh_heap_get_stats(p->heap, &stats));
    p->bad += wrong + stats.live_blocks + stats.bad_frees;
    return wh_device_set(p->device[device[1]], p->call[device[1]].wrong, 0, 8);
}

static wh_status repeat(whi_ranks *b, peers *p) {
    static const int devices[3][2] = {{0, 0}, {0, 1}, {1, 0}};
    static const int ops[3][2] = {
        {MALLOC, FREE}, {UNTIMED, PEER_FREE}, {PEER_MALLOC, FREE_OF_PEER}};
    for (uint32_t i = 0; i <= b->reps; i++) {
        for (int k = 0; k < 3; k++) {
            WHI_BENCH_TRY(round_of(p, devices[k], ops[k]));
        }
        if (i == 0) {
            memset(p->series, 0, sizeof p->series);
        }
    }
    wh_report report;
    p->bad += wh_heap_check(p->heap, &report) != WH_OK;
    return WH_OK;
}

/* The second device: on GPUs, the one after this rank's. */
static wh_status open_other(whi_ranks *b, peers *p) {
    char spec[24] = "sim";
    p->device[0] = b->device;
    if (!b->on_sim) {
        const uint32_t n = wh_device_cuda_count();
        if (n < 2) {
            (void)snprintf(p->left_out, sizeof p->left_out, "one GPU");
            return WH_OK;
        }
        (void)snprintf(spec, sizeof spec, "cuda:%u", ((uint32_t)b->info->ordinal + 1) % n);
    }
    return wh_device_open(&p->device[1], spec, NULL);
}

static wh_status prepare(whi_ranks *b, peers *p) {
    const uint64_t n = b->options->blocks != 0 ? b->options->blocks : b->defaults->blocks;
    WHI_BENCH_TRY(whi_ranks_open_heap(b, n * HEAP_BYTES_A_BLOCK, &p->heap));
    const wh_status s = wh_heap_enable_peer(p->heap, p->device[1]);
    if (s == WH_NO_PEER_ACCESS || s == WH_NO_PEER_ATOMICS) {
        (void)snprintf(p->left_out, sizeof p->left_out, "%.150s", wh_last_error_text());
        return WH_OK;
    }
    WHI_BENCH_TRY(s);
    for (int i = 0; i < 2; i++) {
        void *ptrs = NULL, *wrong = NULL;
        WHI_BENCH_TRY(wh_device_alloc(p->device[i], &ptrs, n * sizeof(void *)));
        p->call[i].ptrs = ptrs;
        WHI_BENCH_TRY(wh_device_alloc(p->device[i], &wrong, 8));
        p->call[i].wrong = wrong;
        WHI_BENCH_TRY(wh_device_set(p->device[i], wrong, 0, 8));
        WHI_BENCH_TRY(p->kernels->bind(p->heap, &p->call[i].handle));
        p->call[i].n = n;
        p->call[i].bytes = BLOCK_BYTES;
    }
    return WH_OK;
}

static wh_status run(whi_ranks *b, peers *p) {
    p->kernels = wh_bench_peer_find(wh_allocator_find("default")->name, b->info->target);
    if (p->kernels == NULL) {
        (void)snprintf(p->left_out, sizeof p->left_out, "kernels that this build lacks");
        return WH_OK;
    }
    wh_status s = open_other(b, p);
    if (s == WH_OK && p->left_out[0] == '\0') {
        s = prepare(b, p);
    }
    if (s == WH_OK && p->left_out[0] == '\0') {
        s = repeat(b, p);
    }
    (void)whi_ranks_note(b, s, "peers");
    for (int i = 0; i < 2; i++) {
        (void)wh_device_free(p->device[i], p->call[i].ptrs);
        (void)wh_device_free(p->device[i], p->call[i].wrong);
    }
    (void)wh_heap_destroy(p->heap);
    wh_device_close(p->device[1]);
    return s;
}

static wh_status emit(whi_ranks *b, const peers *p) {
    static const char *const names[N_OPS] = {"malloc", "free", "peer-free", "peer-malloc",
                                             "free-of-peer"};
    static const int like[N_OPS] = {MALLOC, FREE, FREE, MALLOC, FREE};
    for (int op = 0; op < N_OPS; op++) {
        whi_ranks_row row;
        memset(&row, 0, sizeof row);
        row.series = &p->series[op];
        row.one = &p->series[like[op]];
        row.per_rank = b->part.n;
        row.bad = op == 0 ? p->bad : 0;
        row.size = BLOCK_BYTES;
        b->part.op = names[op];
        WHI_BENCH_TRY(whi_ranks_emit(b, &row));
    }
    return WH_OK;
}

wh_status whi_ranks_case_peers(whi_ranks *b) {
    peers p;
    memset(&p, 0, sizeof p);
    b->part.op = "peer-free";
    b->part.n = b->options->blocks != 0 ? b->options->blocks : b->defaults->blocks;
    const wh_status alone = b->rank == 0 ? run(b, &p) : WH_OK;
    wh_status s = whi_ranks_agree(b, alone, "peers");
    uint64_t left_out = p.left_out[0] != '\0';
    s = s == WH_OK ? whi_ranks_sum(b, &left_out, 1) : s;
    if (s == WH_OK && left_out != 0) {
        whi_ranks_emit_left_out(b, p.left_out);
        return WH_OK;
    }
    for (int op = 0; op < N_OPS && b->rank != 0; op++) {
        p.series[op].n = b->reps; /* no times: those of rank 0 are the longest */
    }
    return whi_ranks_end_part(b, s == WH_OK ? emit(b, &p) : s);
}
