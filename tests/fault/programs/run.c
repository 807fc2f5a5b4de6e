/* run.c: runs a test of another program. */
#include "fault/programs/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A test in one worker, so that it repeats; a kernel, or the host, that does not end is found, too.
 * What cmocka says goes where errors go: the caller reads the output. */
int fault_run(const suite *of, const workload *w, uint64_t seed) {
    char program[64], sim[64], test[64];
    char *argv[] = {program, test, NULL};
    const char *planted = getenv("WH_FAULT");
    (void)seed;
    (void)snprintf(program, sizeof program, "%s", of->name);
    (void)snprintf(sim, sizeof sim, "budget=%llu,workers=1", (unsigned long long)of->step_budget);
    (void)snprintf(test, sizeof test, "%s", w->test);
    if (fflush(stdout) != 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        setenv("WH_SIM", sim, 0) != 0) {
        return 1;
    }
    if (planted != NULL && strcmp(planted, "none") != 0) {
        (void)alarm(getenv("WH_TEST_SEEDS") == NULL ? 60 : 600); /* ten seeds take some seconds */
        if (setenv("WH_TEST_SEEDS", "10", 0) != 0) {
            return 1;
        }
    }
    return w->run(2, argv) != 0;
}
