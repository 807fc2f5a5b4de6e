/* bench_serve.c: `warpheap bench --serve`, the child of a suite (suite.h): reads lines of options,
 * runs each, and tells how that ended. */
#define _POSIX_C_SOURCE 200809L /* getline */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/bench_serve.h"

#define MOST_WORDS 64

#if WHI_TEST_FAULTS
/* For the tests: WH_BENCH_FAULT=ALLOC/CASE=KIND lets that cell crash, hang, end or write nonsense;
 * `late`: crash after its rows. */
static void strike(int argc, char **argv, int late) {
    const char *want = getenv("WH_BENCH_FAULT");
    const char *alloc = "", *name = "";
    char cell[128];
    for (int i = 1; i + 1 < argc; i++) {
        alloc = strcmp(argv[i], "--alloc") == 0 ? argv[i + 1] : alloc;
        name = strcmp(argv[i], "--case") == 0 ? argv[i + 1] : name;
    }
    const int length = snprintf(cell, sizeof cell, "%s/%s=", alloc, name);
    if (want == NULL || strncmp(want, cell, (size_t)length) != 0) {
        return;
    }
    const char *kind = want + length;
    if (strcmp(kind, late ? "late" : "crash") == 0) {
        (void)raise(SIGABRT); /* sanitizers leave it alone */
    } else if (!late && strcmp(kind, "exit") == 0) {
        _exit(3);
    } else if (!late && strcmp(kind, "nonsense") == 0) {
        (void)puts("no row");
    }
    while (!late && strcmp(kind, "hang") == 0) {
        (void)pause();
    }
}
#else
static void strike(int argc, char **argv, int late) {
    (void)argc;
    (void)argv;
    (void)late;
}
#endif

/* Cuts a line at its spaces. */
static int words_of(char *line, char **words) {
    int n = 0;
    char *rest = NULL;
    words[n++] = (char *)"warpheap bench";
    for (char *word = strtok_r(line, " \n", &rest); word != NULL && n < MOST_WORDS;
         word = strtok_r(NULL, " \n", &rest)) {
        words[n++] = word;
    }
    words[n] = NULL;
    return n;
}

int cli_bench_serve(wh_bench_outcome (*answer)(int argc, char **argv, char *error, size_t size)) {
    char *line = NULL;
    size_t room = 0;
    int good = 1;
    while (good && getline(&line, &room, stdin) > 0) {
        char *words[MOST_WORDS + 1];
        char error[1024] = "";
        const int n = words_of(line, words);
        strike(n, words, 0);
        const wh_bench_outcome outcome = answer(n, words, error, sizeof error);
        (void)fflush(stdout);
        strike(n, words, 1);
        json_t *end = json_pack("{s:i}", "end", (int)outcome);
        if (error[0] != '\0') {
            (void)json_object_set_new(end, "error", json_string(error));
        }
        good = json_dumpf(end, stdout, JSON_COMPACT) == 0 && puts("") >= 0 && fflush(stdout) == 0;
        json_decref(end);
    }
    free(line);
    return good ? 0 : 1;
}
