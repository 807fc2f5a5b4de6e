/* stream.c: streams for the case `streams`. */
#include "bench/internal.h"

#if WH_HAVE_CUDA

#include <cuda_runtime_api.h>

/* cudaStreamCreate, not cudaStreamNonBlocking: the timer's events lie on the default
 * stream, which waits for streams of this kind and they for it. */
wh_status whi_bench_stream_open(whi_bench *b, void **stream) {
    cudaStream_t made = NULL;
    *stream = NULL;
    if (b->on_sim) {
        return WH_OK;
    }
    const wh_status s =
        wh_device_note_cuda(b->device, (int)cudaStreamCreate(&made), "cudaStreamCreate");
    *stream = made;
    return s == WH_OK ? s : whi_bench_fail(b, s, "stream");
}

void whi_bench_stream_close(void *stream) {
    if (stream != NULL) {
        (void)cudaStreamDestroy((cudaStream_t)stream);
    }
}

#else

wh_status whi_bench_stream_open(whi_bench *b, void **stream) {
    (void)b;
    *stream = NULL;
    return WH_OK;
}

void whi_bench_stream_close(void *stream) {
    (void)stream;
}

#endif
