/* cmd_view.c: `warpheap view`: a page about a snapshot of a heap. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/snapshot.h"

enum { OPT_SINCE = 256 };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "the page; default: heap.html", 1},
    {"since", OPT_SINCE, "EARLIER", 0, "show what is new since this snapshot of the same heap", 1},
    {0},
};

typedef struct request {
    const char *path, *since, *output;
    int status; /* not 0: a complaint was made */
} request;

static error_t parse(int key, char *arg, struct argp_state *state) {
    request *r = state->input;
    switch (key) {
    case 'o':
        r->output = arg;
        return 0;
    case OPT_SINCE:
        r->since = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (r->path != NULL) {
            r->status = cli_complain("view takes one file, and not '%s' besides (--since names an "
                                     "earlier one)",
                                     arg);
            return EINVAL;
        }
        r->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (r->path == NULL) {
            r->status = cli_complain("view wants a snapshot of a heap (wh_heap_snapshot_save)");
            return EINVAL;
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Whether the page would be written over a snapshot. */
static int is_file(const char *output, const char *path) {
    struct stat a, b;
    return path != NULL && stat(output, &a) == 0 && stat(path, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int cli_view(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "SNAPSHOT",
        "Draws a snapshot of a heap (wh_heap_snapshot_save, docs/LEAKS.md) as a page for a "
        "browser: what its chunks are, how full they are, and which places of the program own "
        "what. Exit status: 0, or 2 if something is wrong.",
        NULL,
        NULL,
        NULL};
    request r;
    snap now, before;
    memset(&r, 0, sizeof r);
    memset(&before, 0, sizeof before);
    r.output = "heap.html";
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &r) != 0) {
        return r.status;
    }
    if (is_file(r.output, r.path) || is_file(r.output, r.since)) {
        return cli_complain("--output %s is the snapshot itself: name another file for the page",
                            r.output);
    }
    int status = snap_read(&now, r.path);
    if (status == 0 && r.since != NULL) {
        status = snap_read(&before, r.since);
        status = status == 0 ? snap_compare(&before, &now) : status;
    }
    const snap *since = r.since != NULL ? &before : NULL;
    status = status == 0 ? snap_page(&now, since, r.output) : status;
    snap_drop(&now);
    snap_drop(&before);
    return status;
}
