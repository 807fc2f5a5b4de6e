/* checkpoint_file.c: files of heaps, as they come: damaged, cut short, of another program. (Forged
 * ones, with checksums that fit, are not to be loaded: warpheap/checkpoint.h.) What is loaded is a
 * sound heap; what is refused leaves nothing, and says why. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "warpheap/checkpoint.h"

void fuzz_one(const uint8_t *bytes, size_t n) {
    const char *path = fuzz_file(bytes, n, ".heap");
    wh_heap_options options;
    wh_heap *heap = NULL;
    int64_t moved = 1;
    memset(&options, 0, sizeof options);
    fuzz_require(wh_device_open(&options.device, "sim", NULL) == WH_OK, "there is a device");
    const wh_status s = wh_heap_load(&heap, path, &options, &moved);
    if (s == WH_OK) {
        fuzz_require(wh_heap_check(heap, NULL) == WH_OK, "a heap that was loaded is sound");
        wh_heap_destroy(heap);
    } else {
        fuzz_require(heap == NULL && moved == 0, "there is no heap then");
        fuzz_require(wh_last_error_text()[0] != '\0', "an error says why");
    }
    wh_device_close(options.device);
}
