/* openmp/lists.c: lists that one target region allocates and another one frees. */
#include <stdio.h>

#include "malloc.h"

enum { N = 100000 };
static int *lists[N];
static int sums[N];

int main(void) {
    wh_heap *heap = NULL;
    wh_heap_options options = {.bytes = 64 << 20};
    wh_device *device = NULL;
    wh_status status = wh_device_open(&device, "cuda", NULL);
    options.device = device;
    if (status == WH_OK) {
        status = wh_heap_create(&heap, &options);
    }
    if (status == WH_OK) {
        status = use_heap_in_targets(heap);
    }
    if (status != WH_OK) {
        printf("%s\n%s\n", wh_status_text(status), wh_last_error_text());
        return status == WH_NO_DEVICE ? 77 : 1;
    }
#pragma omp target enter data map(to : lists, sums)
#pragma omp target teams distribute parallel for
    for (int i = 0; i < N; i++) {
        const int n = i % 100 + 1;
        lists[i] = (int *)malloc((size_t)n * sizeof(int));
        for (int k = 0; lists[i] != NULL && k < n; k++) {
            lists[i][k] = k;
        }
    }
#pragma omp target teams distribute parallel for
    for (int i = 0; i < N; i++) {
        for (int k = 0; lists[i] != NULL && k < i % 100 + 1; k++) {
            sums[i] += lists[i][k];
        }
        free(lists[i]);
    }
#pragma omp target exit data map(from : sums)
    wh_stats stats;
    int right = wh_heap_get_stats(heap, &stats) == WH_OK && stats.live_blocks == 0;
    for (int i = 0; i < N; i++) {
        right &= sums[i] == i % 100 * (i % 100 + 1) / 2;
    }
    printf("%s\n", right ? "right" : "wrong");
    (void)use_heap_in_targets(NULL);
    (void)wh_heap_destroy(heap);
    wh_device_close(device);
    return right ? 0 : 1;
}
