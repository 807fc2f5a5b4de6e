/* comm_base.c: what a communicator knows without asking other ranks. */
#include "workload/ranks/comm_own.h"

#include <stdarg.h>
#include <stdio.h>

wh_status whi_comm_fail(wh_comm *c, int rank, wh_comm_reason reason, wh_status status,
                        const char *format, ...) {
    va_list arguments;
    c->failure.rank = rank;
    c->failure.reason = reason;
    c->failure.status = status;
    va_start(arguments, format);
    (void)vsnprintf(c->failure.text, sizeof c->failure.text, format, arguments);
    va_end(arguments);
    c->dead |= reason != WH_COMM_REPORTED;
    return status;
}

const char *whi_comm_call_name(uint32_t call) {
    static const char *const names[] = {"open",       "close",      "agree",
                                        "all-to-all", "all-gather", "all-reduce"};
    return call < sizeof names / sizeof *names ? names[call] : "a call of another version";
}

int wh_comm_rank(const wh_comm *c) {
    return c->rank;
}

int wh_comm_size(const wh_comm *c) {
    return c->size;
}

int wh_comm_agreed(const wh_comm *c) {
    return c->agreed;
}

const wh_comm_failure *wh_comm_last_failure(const wh_comm *c) {
    return &c->failure;
}

void wh_comm_get_stats(const wh_comm *c, wh_comm_stats *stats) {
    *stats = c->stats;
}

void wh_comm_report(wh_comm *c, wh_status status, const char *line) {
    if (status != WH_OK && c->report == WH_OK) {
        c->report = status;
        (void)snprintf(c->report_text, sizeof c->report_text, "%s", line != NULL ? line : "");
    }
}

void wh_comm_expect(wh_comm *c, uint64_t check, const char *what) {
    c->check = check;
    c->what = what;
}
