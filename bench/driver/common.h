/* common.h: what both drivers of the benchmark share, that of one device and that of several
 * ranks. */
#ifndef WHI_BENCH_COMMON_H
#define WHI_BENCH_COMMON_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "warpheap/device.h"

/* Ends the calling function with the status of what failed. */
#define WHI_BENCH_TRY(call)               \
    do {                                  \
        const wh_status status_ = (call); \
        if (status_ != WH_OK) {           \
            return status_;               \
        }                                 \
    } while (0)

/* One more figure of a row. */
typedef struct whi_bench_value {
    const char *name;
    double value;
    int decimals; /* in the table; 0: a whole number, in JSON, too */
} whi_bench_value;

/* --- stats.c -------------------------------------------------------------------------------- */

double whi_bench_wall_seconds(void);

double whi_bench_median(const double *v, uint32_t n);

/* --- meta.c --------------------------------------------------------------------------------- */

/* The form of every file of results: one object a line, first the header of the run, then its
 * rows. Not 0 if the file could not be written. */
int whi_bench_write_line(const json_t *object, FILE *file);
int whi_bench_write_lines(FILE *file, const json_t *header, const json_t *rows);

/* What the header of every file of results says of the run. Not 0 if there is no memory. */
int whi_bench_set_meta(json_t *meta, const wh_device_info *info);

#endif
