/* view_map.c: adds up what view_page.c draws. */
#include "cli/view_map.h"

#include <stdlib.h>
#include <string.h>

uint64_t map_slack(const map_cell *c) {
    const uint64_t known = c->absent + c->free + c->live + c->fresh + c->kept;
    return known < c->bytes ? c->bytes - known : 0;
}

/* --- cells ------------------------------------------------------------------------------------ */

/* What of a piece lies in a cell. */
static void add_part(map_cell *c, const snap_piece *p, uint64_t bytes, uint64_t chunk_bytes) {
    const uint64_t whole = p->chunks * chunk_bytes;
    const uint64_t of_kept = p->kind == SNAP_LARGE ? whole : p->slot_bytes;
    c->absent += p->kind == SNAP_ABSENT ? bytes : 0;
    c->free += p->kind == SNAP_FREE ? bytes : 0;
    c->kept += (uint64_t)((double)p->kept * (double)of_kept * ((double)bytes / (double)whole));
    if (p->kind == SNAP_SLAB && bytes > c->of_slots) {
        c->slot_bytes = p->slot_bytes;
        c->of_slots = bytes;
    }
}

static void add_piece(map *m, const snap *s, const snap_piece *p) {
    const uint64_t end = p->chunk + p->chunks;
    for (uint64_t at = p->chunk; at < end;) {
        const uint64_t cell = at / m->chunks_per_cell;
        const uint64_t past =
            (cell + 1) * m->chunks_per_cell < end ? (cell + 1) * m->chunks_per_cell : end;
        add_part(&m->cells[cell], p, (past - at) * s->chunk_bytes, s->chunk_bytes);
        at = past;
    }
}

static void add_block(map *m, const snap *s, const snap_block *b) {
    const uint64_t of_cell = m->chunks_per_cell * s->chunk_bytes;
    const uint64_t heap = s->chunks * s->chunk_bytes;
    const uint64_t end = b->taken < heap - b->offset ? b->offset + b->taken : heap;
    m->cells[b->offset / of_cell].blocks++;
    for (uint64_t at = b->offset; at < end;) {
        map_cell *c = &m->cells[at / of_cell];
        const uint64_t past =
            (at / of_cell + 1) * of_cell < end ? (at / of_cell + 1) * of_cell : end;
        *(b->is_new ? &c->fresh : &c->live) += past - at;
        at = past;
    }
}

static void add_up(map *m, const snap *s) {
    m->chunks_per_cell = (s->chunks + MAP_CELLS - 1) / MAP_CELLS;
    m->n_cells = (s->chunks + m->chunks_per_cell - 1) / m->chunks_per_cell;
    for (uint64_t k = 0; k < m->n_cells; k++) {
        const uint64_t left = s->chunks - k * m->chunks_per_cell;
        m->cells[k].bytes =
            (left < m->chunks_per_cell ? left : m->chunks_per_cell) * s->chunk_bytes;
    }
    for (uint64_t i = 0; i < s->n_pieces; i++) {
        add_piece(m, s, &s->pieces[i]);
    }
    for (uint64_t i = 0; i < s->n_blocks; i++) {
        if (s->blocks[i].offset < s->chunks * s->chunk_bytes) {
            add_block(m, s, &s->blocks[i]);
        }
    }
    for (uint64_t k = 0; k < m->n_cells; k++) {
        const map_cell *c = &m->cells[k];
        m->all.bytes += c->bytes;
        m->all.absent += c->absent;
        m->all.free += c->free;
        m->all.live += c->live;
        m->all.fresh += c->fresh;
        m->all.kept += c->kept;
        m->all.blocks += c->blocks;
    }
}

/* --- free runs -------------------------------------------------------------------------------- */

static void add_runs(map *m, const snap *s) {
    for (uint64_t i = 0; i < s->n_pieces; i++) {
        const snap_piece *p = &s->pieces[i];
        uint32_t bin = 0;
        if (p->kind != SNAP_FREE) {
            continue;
        }
        while (bin + 1 < MAP_RUNS && p->chunks >> (bin + 1) != 0) {
            bin++;
        }
        m->run_counts[bin]++;
        m->run_chunks[bin] += p->chunks;
        m->n_runs++;
        m->free_chunks += p->chunks;
        m->largest_run = p->chunks > m->largest_run ? p->chunks : m->largest_run;
    }
}

/* --- classes ---------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    const uint64_t x = ((const map_class *)a)->slot_bytes, y = ((const map_class *)b)->slot_bytes;
    return (x > y) - (x < y);
}

static int add_classes(map *m, const snap *s) {
    map_class *all = malloc((size_t)s->n_pieces * sizeof *all + 1);
    uint64_t n = 0;
    for (uint64_t i = 0; all != NULL && i < s->n_pieces; i++) {
        const snap_piece *p = &s->pieces[i];
        if (p->kind == SNAP_SLAB || p->kind == SNAP_LARGE) {
            const map_class c = {p->slot_bytes, 1, p->chunks, p->slots, p->live, p->kept, p->ready};
            all[n++] = c;
        }
    }
    if (all == NULL) {
        return 0;
    }
    qsort(all, (size_t)n, sizeof *all, by_size);
    for (uint64_t i = 0; i < n; i++) {
        map_class *last = &all[m->n_classes != 0 ? m->n_classes - 1 : 0];
        if (m->n_classes == 0 || last->slot_bytes != all[i].slot_bytes) {
            all[m->n_classes++] = all[i];
            continue;
        }
        last->slabs += all[i].slabs;
        last->chunks += all[i].chunks;
        last->slots += all[i].slots;
        last->live += all[i].live;
        last->kept += all[i].kept;
        last->ready += all[i].ready;
    }
    m->classes = all;
    return 1;
}

/* --- largest blocks --------------------------------------------------------------------------- */

static void add_largest(map *m, const snap *s) {
    for (uint64_t i = 0; i < s->n_blocks; i++) {
        const snap_block *b = &s->blocks[i];
        uint64_t k = m->n_largest;
        if (k == MAP_LARGEST && m->largest[k - 1]->bytes >= b->bytes) {
            continue;
        }
        k = k == MAP_LARGEST ? k - 1 : m->n_largest++;
        for (; k != 0 && m->largest[k - 1]->bytes < b->bytes; k--) {
            m->largest[k] = m->largest[k - 1];
        }
        m->largest[k] = b;
    }
}

int map_make(map *m, const snap *s) {
    memset(m, 0, sizeof *m);
    if (!add_classes(m, s)) {
        return 0;
    }
    add_up(m, s);
    add_runs(m, s);
    add_largest(m, s);
    return 1;
}

void map_drop(map *m) {
    free(m->classes);
    m->classes = NULL;
}
