/* suite.h: how `warpheap bench --suite` runs its cells: a child process that runs one after the
 * other and tells its rows by a pipe, and a file of results that can be gone on with. */
#ifndef WHI_CLI_SUITE_H
#define WHI_CLI_SUITE_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

#include "bench/suite.h"
#include "cli/cli.h"

typedef struct suite_request {
    const wh_bench_suite *suite;
    const char *device;              /* NULL: auto */
    const char *path;                /* of the results; NULL: none */
    int resume;                      /* what the file has is not run again */
    const cli_names *allocs, *cases; /* none: all */
    uint64_t seed;
    uint32_t part, parts; /* 1..parts; parts 0: all */
    double limit;         /* seconds of a cell; 0: the suite's own */
} suite_request;

/* The suite of that name, or NULL. */
const wh_bench_suite *suite_find(const char *name);
/* Name and options of each of its cells, one a line. */
void suite_list(const wh_bench_suite *suite);
/* Runs it. Returns the exit status. */
int cli_suite(const suite_request *r);

/* --- suite_child.c: this program as a child -----------------------------------------------------
 */

/* A child answers each line that it is sent, options of `warpheap bench`, by rows, one JSON object
 * a line, and {"end": outcome, "error": text}. It ends when its standard input does. */
typedef struct suite_child {
    pid_t pid; /* 0: none */
    int to, from;
    char *text; /* received, from `begin` on not yet told */
    size_t begin, used, room;
} suite_child;

typedef enum suite_event {
    SUITE_LINE,
    SUITE_ENDED, /* the child has */
    SUITE_TIME_OVER,
    SUITE_STOPPED, /* a signal wants this program to end */
} suite_event;

/* From here on SIGINT, SIGTERM and SIGHUP are noted, not obeyed. */
void suite_note_signals(void);
int suite_is_stopped(void);

double suite_seconds(void); /* a clock */

/* 0: there is no child, errno says why. */
int suite_child_start(suite_child *c);
int suite_child_send(suite_child *c, const char *line);
/* Waits for a line, without its end, until the clock says `deadline`. */
suite_event suite_child_line(suite_child *c, double deadline, const char **line);
/* Waits for its end, after killing it if it is to be; how it ended goes to text. */
void suite_child_stop(suite_child *c, int kill_it, char *text, size_t size);

/* --- suite_file.c: results ----------------------------------------------------------------------
 */

/* Each row says to which cell it belongs (`cell`) and how many rows that has (`cell_rows`), so that
 * what an end in the middle left can be told. */
typedef struct suite_file {
    FILE *file;      /* NULL: none */
    json_t *objects; /* of the file as it was found */
    json_t *header;  /* the first of them; NULL: it is new */
    json_t *counts;  /* "alloc/cell": rows that are there, all that it has */
} suite_file;

/* Reads what a file has that is to be gone on with, NULL: nothing is. 0: error holds one line. */
int suite_file_read(suite_file *f, const char *path, char *error, size_t size);
/* Opens it for more; what is not whole goes. path NULL: no file. 0: it cannot be written. */
int suite_file_open(suite_file *f, const char *path);
int suite_file_has(const suite_file *f, const char *alloc, const char *cell);
/* Writes an object as a line, or the rows of a cell, to which the members above are added. 0: it
 * could not be written. */
int suite_file_header(suite_file *f, const json_t *header);
int suite_file_add(suite_file *f, json_t *rows, const char *cell);
int suite_file_close(suite_file *f);

#endif
