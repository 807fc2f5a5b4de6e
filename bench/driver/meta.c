/* meta.c: the form of files of results, and what their headers say. */
#include <time.h>

#include "bench/driver/internal.h"
#include "build_info.h"

int whi_bench_set_meta(json_t *meta, const wh_device_info *info) {
    char date[32];
    const time_t now = time(NULL);
    struct tm utc;
    int e = 0;
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    e |= json_object_set_new(meta, "commit", json_string(WH_BUILD_COMMIT));
    e |= json_object_set_new(meta, "device", json_string(info->name));
    e |= json_object_set_new(meta, "driver", json_string(info->driver));
    e |= json_object_set_new(meta, "compiler", json_string(WH_BUILD_COMPILER));
    e |= json_object_set_new(meta, "flags", json_string(WH_BUILD_FLAGS));
    e |= json_object_set_new(meta, "date", json_string(date));
    return e;
}

int whi_bench_write_line(const json_t *object, FILE *file) {
    const int e = json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(7));
    return e | (fputc('\n', file) == EOF) | (fflush(file) != 0); /* a killed run keeps its rows */
}

int whi_bench_write_lines(FILE *file, const json_t *header, const json_t *rows) {
    int e = whi_bench_write_line(header, file);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        e |= whi_bench_write_line(json_array_get(rows, i), file);
    }
    return e;
}
