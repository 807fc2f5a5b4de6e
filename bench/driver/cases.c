/* cases.c: the table of cases (cases/list.h), and one of them with one allocator. */
#include <string.h>

#include "bench/driver/internal.h"

static const struct {
    const char *name;
    const char *text;
    int plain;
    wh_status (*run)(whi_bench *b);
} cases[] = {
#define ENTRY(name, function, plain, text) {name, text, plain, function},
    WHI_BENCH_CASE_LIST(ENTRY)};

#define N_CASES (sizeof cases / sizeof *cases)

const char *wh_bench_case_name(size_t index) {
    return index < N_CASES ? cases[index].name : NULL;
}

const char *wh_bench_case_text(size_t index) {
    return index < N_CASES ? cases[index].text : NULL;
}

static size_t find(const char *name) {
    size_t i = 0;
    while (i < N_CASES && strcmp(cases[i].name, name) != 0) {
        i++;
    }
    return i;
}

int whi_bench_is_case(const char *name) {
    return find(name) < N_CASES;
}

int whi_bench_is_plain_case(const char *name) {
    return whi_bench_is_case(name) && cases[find(name)].plain;
}

wh_status whi_bench_case(whi_bench *b, const char *name) {
    const size_t i = find(name);
    if (i == N_CASES) {
        return WH_BAD_ARGUMENT;
    }
    b->heap_bytes = whi_bench_heap_bytes(b); /* the cases cut their thread counts to it */
    memset(&b->turn, 0, sizeof b->turn);
    b->turn.name = cases[i].name;
    b->turn.limits = WHI_BENCH_CASE_LIMITS;
    b->turn.start = whi_bench_wall_seconds();
    wh_status s = cases[i].run(b);
    if (b->turn.left_out.size != 0) {
        const wh_status reported = whi_bench_emit_left_out(b);
        s = s == WH_OK ? reported : s;
    }
    return s;
}
