/* live_user.cu: kernels with 24 values that are needed after a call of malloc or free: live.py sees
 * in which registers they wait. For nvcc and NVRTC. */
/* clang-format off */
#define LIVE_ALL(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) \
    X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
/* clang-format on */
#define LIVE_LOAD(i) const float x##i = in[(i)*32 + threadIdx.x];
#define LIVE_STORE(i) out[(i)*32 + threadIdx.x] = x##i;
#define LIVE_KERNEL(name, call)                                                   \
    extern "C" __global__ void name(const float *in, float *out, void **blocks) { \
        LIVE_ALL(LIVE_LOAD)                                                       \
        call;                                                                     \
        __syncthreads();                                                          \
        LIVE_ALL(LIVE_STORE)                                                      \
    }
LIVE_KERNEL(live_malloc, blocks[threadIdx.x] = malloc(16))
LIVE_KERNEL(live_free, free(blocks[threadIdx.x]))
