/* stats.c: failures, wall time, medians, numbers as text: what measuring and reporting share. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/driver/internal.h"

wh_status whi_bench_fail(whi_bench *b, wh_status status, const char *format, ...) {
    if (b->error[0] == '\0') {
        char what[320];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(what, sizeof what, format, args);
        va_end(args);
        const char *detail =
            status == WH_DEVICE_ERROR && b->device != NULL ? wh_device_error_text(b->device) : "";
        (void)snprintf(b->error, sizeof b->error, "%s: %s%s%s%s", what, wh_status_text(status),
                       detail[0] != '\0' ? " (" : "", detail, detail[0] != '\0' ? ")" : "");
    }
    return status;
}

wh_status whi_bench_check(whi_bench *b, wh_status s, const char *what) {
    return s == WH_OK ? s : whi_bench_fail(b, s, "%s of '%s'", what, b->alloc->name);
}

/* --- limits ------------------------------------------------------------------------------ */

double whi_bench_wall_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int whi_bench_over(const whi_bench *b, double start, double limits) {
    return b->limit > 0 && whi_bench_wall_seconds() - start > limits * b->limit;
}

int whi_bench_leave_out(whi_bench *b, whi_bench_part next) {
    whi_bench_turn *t = &b->turn;
    if (t->left_out.size == 0 && t->begun && whi_bench_over(b, t->start, t->limits)) {
        t->left_out = next;
    }
    t->begun = 1;
    return t->left_out.size != 0;
}

/* --- numbers ----------------------------------------------------------------------------- */

static int compare(const void *x, const void *y) {
    const double a = *(const double *)x;
    const double b = *(const double *)y;
    return (a > b) - (a < b);
}

double whi_bench_median(const double *v, uint32_t n) {
    double sorted[WH_BENCH_MAX_REPS];
    if (n == 0) {
        return 0;
    }
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, compare);
    return n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void whi_bench_add_sample(whi_bench_series *series, double us) {
    series->us[series->n++] = us;
}

void whi_bench_set_sample(whi_bench_series *series, double us) {
    series->us[0] = us;
    series->n = 1;
}

const char *whi_bench_bytes_text(uint64_t bytes, char *text, size_t size) {
    static const char units[] = {'K', 'M', 'G'};
    int unit = -1;
    uint64_t v = bytes;
    while (unit < 2 && v != 0 && v % 1024 == 0) {
        v /= 1024;
        unit++;
    }
    if (unit < 0 || bytes < 16384) {
        (void)snprintf(text, size, "%llu", (unsigned long long)bytes);
    } else {
        (void)snprintf(text, size, "%llu%c", (unsigned long long)v, units[unit]);
    }
    return text;
}
