/* snapshot_sum.c: two snapshots of one heap compared, and blocks grouped by place and size. */
#define _GNU_SOURCE /* qsort_r */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/snapshot.h"

/* --- two of one heap -------------------------------------------------------------------------- */

/* Blocks of a heap that is not checked: at a place where there was none of that size. */
static void compare_places(const snap *before, snap *now) {
    uint64_t k = 0;
    for (uint64_t i = 0; i < now->n_blocks; i++) {
        snap_block *b = &now->blocks[i];
        while (k < before->n_blocks && before->blocks[k].offset < b->offset) {
            k++;
        }
        b->is_new = k == before->n_blocks || before->blocks[k].offset != b->offset ||
                    before->blocks[k].taken != b->taken;
    }
}

int snap_compare(const snap *before, snap *now) {
    if (before->pid != now->pid || before->created_ns != now->created_ns ||
        before->chunk_bytes != now->chunk_bytes || before->checked != now->checked) {
        return cli_complain("%s and %s are not of one heap: take two snapshots that one run of a "
                            "program has saved of the same heap",
                            before->path, now->path);
    }
    if (before->time_ns > now->time_ns || (now->checked && before->mark > now->mark)) {
        return cli_complain("%s is later than %s: give the earlier snapshot as the first one",
                            before->path, now->path);
    }
    if (!now->checked) {
        compare_places(before, now);
        return 0;
    }
    for (uint64_t i = 0; i < now->n_blocks; i++) {
        snap_block *b = &now->blocks[i];
        b->is_new = b->mark != SNAP_UNKNOWN && b->mark >= before->mark;
    }
    return 0;
}

/* --- groups ----------------------------------------------------------------------------------- */

static int by_site(const void *a, const void *b, void *context) {
    const snap_block *blocks = context;
    const snap_block *x = &blocks[*(const uint32_t *)a], *y = &blocks[*(const uint32_t *)b];
    if (x->site != y->site) {
        return x->site < y->site ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? -1 : 1;
    }
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_bytes(const void *a, const void *b) {
    const snap_group *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    if (x->site != y->site) {
        return x->site < y->site ? -1 : 1;
    }
    return (x->least > y->least) - (x->least < y->least);
}

/* The group that b is part of: the last one, or the next. */
static snap_group *group_of(snap_group *groups, uint64_t *n, const snap_block *b, unsigned how) {
    snap_group *last = *n != 0 ? &groups[*n - 1] : NULL;
    if (last != NULL && last->site == b->site &&
        ((how & SNAP_BY_SIZE) == 0 || last->most == b->bytes)) {
        last->n_sizes += last->most != b->bytes;
        last->most = b->bytes;
        return last;
    }
    last = &groups[(*n)++];
    memset(last, 0, sizeof *last);
    last->site = b->site;
    last->least = last->most = b->bytes;
    last->n_sizes = 1;
    last->first = b;
    return last;
}

snap_group *snap_groups(const snap *s, unsigned how, uint64_t *n) {
    const int only_new = (how & SNAP_NEW) != 0;
    const size_t most = (size_t)s->n_blocks;
    uint64_t chosen = 0;
    *n = 0;
    uint32_t *order = most <= UINT32_MAX ? malloc(most * sizeof *order + 1) : NULL;
    for (size_t i = 0; order != NULL && i < most; i++) {
        if (!only_new || s->blocks[i].is_new) {
            order[chosen++] = (uint32_t)i;
        }
    }
    uint64_t n_groups = chosen != 0;
    if (order != NULL) {
        qsort_r(order, (size_t)chosen, sizeof *order, by_site, s->blocks);
        for (uint64_t i = 1; i < chosen; i++) {
            const snap_block *x = &s->blocks[order[i - 1]], *y = &s->blocks[order[i]];
            n_groups += x->site != y->site || x->bytes != y->bytes;
        }
    }
    snap_group *groups = order != NULL ? malloc((size_t)n_groups * sizeof *groups + 1) : NULL;
    if (groups == NULL) {
        free(order);
        (void)cli_complain("%s: the host has not enough memory for its blocks", s->path);
        return NULL;
    }
    for (uint64_t i = 0; i < chosen; i++) {
        const snap_block *b = &s->blocks[order[i]];
        snap_group *g = group_of(groups, n, b, how);
        g->first = b->offset < g->first->offset ? b : g->first;
        g->blocks++;
        g->bytes += b->bytes;
        g->taken += b->taken;
        g->new_blocks += b->is_new;
        g->new_bytes += b->is_new ? b->bytes : 0;
    }
    free(order);
    qsort(groups, (size_t)*n, sizeof *groups, by_bytes);
    return groups;
}

const char *snap_place(const snap *s, uint32_t site, char text[SNAP_PLACE]) {
    const snap_site *at = site < s->n_sites ? &s->sites[site] : NULL;
    if (at == NULL || (at->file[0] == '\0' && at->line == 0)) {
        return "unknown place";
    }
    if (at->file[0] == '\0') {
        (void)snprintf(text, SNAP_PLACE, "tag %" PRIu64, at->line);
    } else {
        (void)snprintf(text, SNAP_PLACE, "%.220s:%" PRIu64, at->file, at->line);
    }
    return text;
}
