/* launches.c: the stand-in's half of what nvcc makes of <<<>>>: a launch notes the device that it
 * ran on. The names are those that nvcc's host code calls. */
#include "cuda_runtime_api.h"
#include "standin.h"

typedef struct dim3 {
    unsigned x, y, z;
} dim3;

static dim3 grid, block;
static size_t shared;
static void *stream_of;

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *bdim, void *gdim, int *size);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *bytes, void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaLaunchKernel(void *kernel, dim3 g, dim3 b, void **args, size_t bytes,
                               cudaStream_t stream);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 g, dim3 b, void **args, size_t bytes,
                             cudaStream_t stream);
cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value);
cudaError_t cudaFuncGetAttributes(void *attributes, const void *kernel);

void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    handle = binary;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}
void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *bdim, void *gdim, int *size) {
    (void)handle, (void)host, (void)device, (void)name, (void)limit;
    (void)tid, (void)bid, (void)bdim, (void)gdim, (void)size;
}
char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}
unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t bytes, void *stream) {
    grid = g, block = b, shared = bytes, stream_of = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *g, dim3 *b, size_t *bytes, void *stream) {
    *g = grid, *b = block, *bytes = shared;
    *(void **)stream = stream_of;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(void **kernel, const void *function) {
    *kernel = (void *)(size_t)function;
    return cudaSuccess;
}
/* As any other call on a stream: a stray if the current device is not the stream's. */
cudaError_t __cudaLaunchKernel(void *kernel, dim3 g, dim3 b, void **args, size_t bytes,
                               cudaStream_t stream) {
    (void)kernel, (void)g, (void)b, (void)args, (void)bytes;
    return cudaStreamSynchronize(stream);
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 g, dim3 b, void **args, size_t bytes,
                             cudaStream_t stream) {
    return __cudaLaunchKernel((void *)(size_t)kernel, g, b, args, bytes, stream);
}
cudaError_t cudaFuncGetAttributes(void *attributes, const void *kernel) {
    (void)kernel;
    *(size_t *)attributes = 8; /* sharedSizeBytes comes first */
    return cudaStreamSynchronize(NULL);
}
cudaError_t cudaFuncSetAttribute(const void *kernel, int attribute, int value) {
    (void)kernel, (void)attribute, (void)value;
    return cudaStreamSynchronize(NULL);
}
