/* cmd_report.c: `warpheap report`: a page about results of `warpheap bench`. It is made by a
 * program in Python, python/warpheap/report, which this one finds and becomes. */
#define _DEFAULT_SOURCE /* readlink */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#ifndef WHI_REPORT_INSTALLED
#define WHI_REPORT_INSTALLED "../share/warpheap/report"
#endif

enum { ROOM = 4096 };

/* Where it is, seen from the folder of this program: in a build folder, and where both were
 * installed. */
static const char *const places[] = {"share/warpheap/report", WHI_REPORT_INSTALLED};

/* The folder of this program, with a slash. 0: it is not known. */
static int own_folder(char *path) {
    const ssize_t n = readlink("/proc/self/exe", path, ROOM - 1);
    if (n <= 0) {
        return 0;
    }
    path[n] = '\0';
    char *const slash = strrchr(path, '/');
    if (slash == NULL) {
        return 0;
    }
    slash[1] = '\0';
    return 1;
}

/* 0: it is nowhere. */
static int find(char *found) {
    char folder[ROOM], file[2 * ROOM];
    if (!own_folder(folder)) {
        return 0;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(found, (size_t)2 * ROOM, "%s%s", folder, places[i]);
        const int n = snprintf(file, sizeof file, "%s/__main__.py", found);
        if (n > 0 && (size_t)n < sizeof file && access(file, R_OK) == 0) {
            return 1;
        }
    }
    return 0;
}

int cli_report(int argc, char **argv) {
    char folder[2 * ROOM];
    const char *const named = getenv("WARPHEAP_PYTHON");
    const char *const python = named != NULL && named[0] != '\0' ? named : "python3";
    if (!find(folder)) {
        return cli_complain("report is not installed beside this program (share/warpheap/report); "
                            "python3 -m warpheap.report does the same, from the Python package");
    }
    char **const words = malloc(((size_t)argc + 2) * sizeof *words);
    if (words == NULL) {
        return cli_complain("out of memory");
    }
    words[0] = (char *)python;
    words[1] = folder;
    memcpy(words + 2, argv + 1, (size_t)argc * sizeof *words); /* and the NULL at the end */
    (void)fflush(NULL);
    (void)execvp(python, words);
    const int error = errno;
    free(words);
    return cli_complain("report needs Python 3.9 or newer, and '%s' cannot be run: %s (Debian: "
                        "apt-get install python3-matplotlib python3-jinja2; WARPHEAP_PYTHON names "
                        "another one)",
                        python, strerror(error));
}
