/* 03_warp_groups.c: core/warp_group.h and core/size_class.h on their own: the lanes of a warp
 * that ask for the same size class share one atomic. Counts requests and atomics. */
#include <stdio.h>
#include <warpheap/core/warp_group.h>
#include <warpheap/core/size_class.h>
#include <warpheap/device.h>

typedef struct {
    uint32_t *requests;
    uint32_t *atomics;
} args; /* one counter per class */

WH_KERNEL(count_classes, args, a) {
    const uint64_t bytes = 16 + wh_thread_id() * 37 % 240; /* 16..255 */
    const uint32_t size_class = wh_pow2_class(bytes, 4);   /* 16, 32, 64, 128, 256 */
    const wh_group same = wh_group_by_u32(wh_activemask(), size_class);
    if (wh_group_leads(same)) {
        (void)wh_fetch_add_u32_relaxed(&a.requests[size_class], same.n);
        wh_add_u32_relaxed(a.atomics, 1);
    }
}

int main(void) {
    wh_device *device = NULL;
    void *memory = NULL;
    uint32_t host[6] = {0};
    wh_status s = wh_device_open(&device, WH_TARGET_NAME, NULL);
    if (s == WH_OK) {
        s = wh_device_alloc(device, &memory, sizeof host);
    }
    if (s == WH_OK) {
        s = wh_device_set(device, memory, 0, sizeof host);
    }
    if (s == WH_OK) {
        const wh_launch launch = {device, 4, 256, NULL};
        args a;
        a.requests = (uint32_t *)memory;
        a.atomics = a.requests + 5;
        s = count_classes(&launch, &a);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(device, host, memory, sizeof host);
    }
    const uint32_t sum = host[0] + host[1] + host[2] + host[3] + host[4];
    printf("%s: %u requests in %u atomics\n", wh_status_name(s), sum, host[5]);
    if (device != NULL) {
        (void)wh_device_free(device, memory);
    }
    wh_device_close(device);
    return s != WH_OK || sum != 1024 || host[5] >= 1024;
}
