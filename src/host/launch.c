/* launch.c: the bounds of a kernel start, the same for both targets. */
#include "device_internal.h"
#include "last_error.h"

#define MOST_THREADS 1024u
#define MOST_THREADS_Z 64u
#define MOST_BLOCKS_X 0x7fffffffu
#define MOST_BLOCKS_YZ 65535u
#define MOST_SHARED_BYTES (227u << 10)

static uint64_t or_one(uint32_t n) {
    return n != 0 ? n : 1;
}

/* Which bound a launch breaks; NULL: none. */
static const char *broken_bound(const wh_launch *l) {
    const uint64_t threads = l->threads * or_one(l->threads_y) * or_one(l->threads_z);
    const uint64_t blocks = l->blocks * or_one(l->blocks_y) * or_one(l->blocks_z);
    if (l->blocks == 0 || l->threads == 0) {
        return "blocks and threads are 1 at least";
    }
    if (l->threads > MOST_THREADS || l->threads_y > MOST_THREADS || l->threads_z > MOST_THREADS_Z ||
        threads > MOST_THREADS) {
        return "a block has 1024 threads at most, 64 of them in z";
    }
    if (l->blocks > MOST_BLOCKS_X || l->blocks_y > MOST_BLOCKS_YZ || l->blocks_z > MOST_BLOCKS_YZ ||
        blocks > UINT32_MAX) {
        return "a grid has fewer than 2^31 blocks in x, 2^16 in y and z, 2^32 in all";
    }
    return l->shared_bytes > MOST_SHARED_BYTES ? "shared_bytes is 227 KiB at most" : NULL;
}

wh_status wh_launch_check(const wh_launch *l, wh_target target) {
    if (l == NULL || l->device == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "a launch without wh_launch or without a device");
    }
    if (l->device->info.target != target) {
        return whi_refuse(WH_BAD_ARGUMENT, "a kernel that runs on %s was launched on %s",
                          target == WH_TARGET_SIM ? "the simulated device" : "a GPU",
                          target == WH_TARGET_SIM ? "a GPU" : "the simulated device");
    }
    const char *bound = broken_bound(l);
    return bound == NULL ? WH_OK : whi_refuse(WH_BAD_ARGUMENT, "a launch out of bounds: %s", bound);
}
