/* full_device.h: a simulated device whose memory has been taken. Included once per program. */
#ifndef FULL_DEVICE_H
#define FULL_DEVICE_H

#include "sim/sim_test.h"

static void *taken_of_device[96];
static uint32_t n_taken_of_device;

/* Takes all memory of a device but for less than `least` bytes. */
static void fill_device(wh_device *device, uint64_t least) {
    n_taken_of_device = 0;
    for (uint64_t bytes = (uint64_t)1 << 31; bytes >= least; bytes /= 2) {
        void *p = NULL;
        while (n_taken_of_device < 96 && wh_device_alloc(device, &p, bytes) == WH_OK) {
            taken_of_device[n_taken_of_device++] = p;
        }
    }
}

static void empty_device(wh_device *device) {
    while (n_taken_of_device != 0) {
        assert_int_equal(wh_device_free(device, taken_of_device[--n_taken_of_device]), WH_OK);
    }
}

#endif
