/* cmd_diff.c: `warpheap diff`: what is live in a later snapshot of a heap, and was not in an
 * earlier one, by place and size. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/snapshot.h"

static const struct argp_option options[] = {
    {"top", 'n', "N", 0, "list the N places with the most bytes; default 40, 0: all", 1},
    {0},
};

typedef struct request {
    const char *paths[2];
    uint64_t top;
    int status; /* not 0: a complaint was made */
} request;

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    switch (key) {
    case 'n':
        if (!cli_parse_number(arg, &r->top)) {
            r->status = cli_complain("--top: '%s' is not a number", arg);
            return EINVAL;
        }
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= 2) {
            r->status = cli_complain("diff takes two files, and not '%s' besides", arg);
            return EINVAL;
        }
        r->paths[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (r->paths[1] == NULL) {
            r->status = cli_complain("diff wants two snapshots (wh_heap_snapshot_save), the "
                                     "earlier one first");
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_group(const snap *s, const snap_group *g) {
    char place[SNAP_PLACE], text[SNAP_PLACE];
    (void)printf("%12" PRIu64 " %10" PRIu64 " %10" PRIu64 "  %s", g->bytes, g->blocks, g->least,
                 cli_name_text(snap_place(s, g->site, place), text, sizeof text));
    if (g->first->thread != SNAP_UNKNOWN) {
        (void)printf("  (block %" PRIu64 ", thread %" PRIu64 ")", g->first->block,
                     g->first->thread);
    }
    (void)putchar('\n');
}

/* 1: there are new blocks. */
static int print_new(const request *r, const snap *before, const snap *now) {
    uint64_t n = 0, blocks = 0, bytes = 0;
    snap_group *groups = snap_groups(now, SNAP_BY_SIZE | SNAP_NEW, &n);
    char text[32];
    if (groups == NULL) {
        return CLI_USAGE;
    }
    for (uint64_t i = 0; i < n; i++) {
        blocks += groups[i].blocks;
        bytes += groups[i].bytes;
    }
    (void)printf("%" PRIu64 " new blocks are live, %" PRIu64 " bytes (%s), %.3f s later; %" PRIu64
                 " live in all, %" PRIu64 " before\n",
                 blocks, bytes, cli_bytes_text(bytes, text),
                 (double)(now->time_ns - before->time_ns) * 1e-9, now->n_blocks, before->n_blocks);
    if (!now->checked) {
        (void)puts("The heap is not checked (tessera.checked): blocks have no place, and one that "
                   "came to the place\nof an older one of its size is not seen.");
    }
    if (n != 0) {
        (void)printf("%12s %10s %10s  %s\n", "bytes", "blocks", "of size", "allocated at");
    }
    const uint64_t shown = r->top != 0 && r->top < n ? r->top : n;
    uint64_t rest_blocks = blocks, rest_bytes = bytes;
    for (uint64_t i = 0; i < shown; i++) {
        print_group(now, &groups[i]);
        rest_blocks -= groups[i].blocks;
        rest_bytes -= groups[i].bytes;
    }
    if (shown < n) {
        (void)printf("%12" PRIu64 " %10" PRIu64 " %10s  %" PRIu64 " more (--top 0 lists them)\n",
                     rest_bytes, rest_blocks, "", n - shown);
    }
    free(groups);
    return blocks != 0;
}

int cli_diff(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "EARLIER LATER",
        "Lists blocks that are live in a snapshot of a heap (wh_heap_snapshot_save, docs/LEAKS.md) "
        "and were not in an earlier one, by the place that allocated them and by size, those with "
        "the most bytes first. Exit status, as that of diff: 0 if there are none, 1 if there are "
        "some, 2 if something is wrong.",
        NULL,
        NULL,
        NULL};
    request r;
    snap before, now;
    memset(&r, 0, sizeof r);
    memset(&now, 0, sizeof now);
    r.top = 40;
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &r) != 0) {
        return r.status;
    }
    int status = snap_read(&before, r.paths[0]);
    status = status == 0 ? snap_read(&now, r.paths[1]) : status;
    status = status == 0 ? snap_compare(&before, &now) : status;
    status = status == 0 ? print_new(&r, &before, &now) : status;
    snap_drop(&before);
    snap_drop(&now);
    return status;
}
