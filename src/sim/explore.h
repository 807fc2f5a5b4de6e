/* explore.h: what a test that explores schedules asks of the simulated device: internal calls, for
 * programs that have src/ on their include path. Single-threaded mode only. */
#ifndef WHI_SIM_EXPLORE_H
#define WHI_SIM_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "warpheap/device.h"

/* Who chooses the lane that goes on, in place of the policy. Lanes that back off give way and do
 * not sleep. Grids of at most 64 threads, counted over all blocks, all of them resident. */
typedef struct whi_steering {
    /* can: a bit for each thread that can run, at least two of them. ran: the thread that asks; 64:
     * the host, at the beginning. leave: it waits, has ended, or gives way; else it could go on.
     * Returns a thread of can. */
    uint32_t (*choose)(void *state, uint64_t can, uint32_t ran, bool leave);
    void *state;
} whi_steering;

/* For all launches from now on; NULL: the policy again. The struct must live until then. */
void whi_sim_steer(wh_device *device, const whi_steering *steering);

/* In the next launch the thread stops for ever where it asks for the n-th time (from 1 on) who goes
 * on: at its n-th scheduling point, if it waits in no collective. If the others end, the launch
 * fails with a text that has WHI_SIM_STOPPED in it. n = 0: nobody stops. */
void whi_sim_stop(wh_device *device, uint64_t thread, uint64_t n);
#define WHI_SIM_STOPPED "the others have ended"

/* All launches from now on end with a failure after so many scheduling points, wherever their lanes
 * are. */
void whi_sim_budget(wh_device *device, uint64_t points);

/* How often the stopped thread of the last launch has asked; less than n: it has ended before. */
uint64_t whi_sim_asked(const wh_device *device);

/* A hash of all switches since the device was opened or whi_sim_seed was called: of when and to
 * whom, of whom wh_activemask named, and of old values. */
uint64_t whi_sim_schedule(const wh_device *device);

/* Begins another schedule: the device goes on as if it had just been opened with this seed. */
void whi_sim_seed(wh_device *device, uint64_t seed);

/* Ends the schedule: its line is written (WH_SIM=schedules=FILE). What runs until whi_sim_seed is
 * called again has none. */
void whi_sim_end_schedule(wh_device *device);

/* As wh_device_get_counters says, for a lane: no scheduling point. 0: host code. */
uint64_t whi_sim_steps(void);

#endif
