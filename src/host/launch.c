/* launch.c: the bounds of a kernel start, the same for both targets. */
#include "warpheap/device.h"

#define MOST_THREADS 1024u
#define MOST_THREADS_Z 64u
#define MOST_BLOCKS_X 0x7fffffffu
#define MOST_BLOCKS_YZ 65535u
#define MOST_SHARED_BYTES (227u << 10)

static uint64_t or_one(uint32_t n) {
    return n != 0 ? n : 1;
}

wh_status wh_launch_check(const wh_launch *l, wh_target target) {
    if (l == NULL || l->device == NULL || wh_device_get_info(l->device)->target != target) {
        return WH_BAD_ARGUMENT;
    }
    if (l->blocks == 0 || l->blocks > MOST_BLOCKS_X || l->blocks_y > MOST_BLOCKS_YZ ||
        l->blocks_z > MOST_BLOCKS_YZ || l->threads == 0 || l->threads > MOST_THREADS ||
        l->threads_y > MOST_THREADS || l->threads_z > MOST_THREADS_Z ||
        l->shared_bytes > MOST_SHARED_BYTES) {
        return WH_BAD_ARGUMENT;
    }
    const uint64_t threads = l->threads * or_one(l->threads_y) * or_one(l->threads_z);
    const uint64_t blocks = l->blocks * or_one(l->blocks_y) * or_one(l->blocks_z);
    return threads <= MOST_THREADS && blocks <= UINT32_MAX ? WH_OK : WH_BAD_ARGUMENT;
}
