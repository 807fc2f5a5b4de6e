/* device.h: host calls on a device: a GPU or the simulated one. C11 and C++.
 *
 * Every call returns a status; nothing prints or exits. A pointer that is NULL is WH_BAD_ARGUMENT,
 * but for a stream, which is the default one then, and for what is to be closed, freed or
 * destroyed: nothing is done then. A wh_device may be used by any host thread, by one at a time.
 * Each call on a GPU works on the GPU of its wh_device, and leaves the CUDA runtime's current
 * device as the calling thread had it.
 */
#ifndef WH_DEVICE_H
#define WH_DEVICE_H

#include "warpheap/types.h"

#include "warpheap/detail/simt/begin.h"

#if WH_HAS_HOST

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_device wh_device;

/* One kernel start. blocks and threads at least 1. stream: NULL, the default stream, or one of
 * wh_stream_create; for a GPU also any cudaStream_t. The fields after it may be left out (zero):
 * a grid and blocks of one dimension without shared memory. Products of the three dimensions: at
 * most 1024 threads, and 2^32 - 1 blocks. New fields come at the end, so begin with {0} or
 * wh_grid: a field that is left as it was is read. The struct does not say its
 * size, since what reads it is compiled with it, or belongs to the same minor version. */
typedef struct wh_launch {
    wh_device *device;
    uint32_t blocks;  /* in x; at most 2^31 - 1 */
    uint32_t threads; /* in x */
    void *stream;
    uint32_t blocks_y, blocks_z;   /* at most 65535 each; 0 is 1 */
    uint32_t threads_y, threads_z; /* threads_z at most 64; 0 is 1 */
    uint32_t shared_bytes;         /* of each block, behind wh_shared(); at most 227 KiB, or
                                      what the GPU has */
} wh_launch;

/* A launch of one dimension on the default stream; other fields may be set in it. */
static inline wh_launch wh_grid(wh_device *device, uint32_t blocks, uint32_t threads) {
    wh_launch launch = {0};
    launch.device = device;
    launch.blocks = blocks;
    launch.threads = threads;
    return launch;
}

/* Scheduling policies of the simulated device; docs/SIMULATOR.md. X(NAME, "cli name") */
#define WH_SIM_POLICY_LIST(X)     \
    X(ROUND_ROBIN, "round-robin") \
    X(RANDOM, "random")           \
    X(STICKY, "sticky")           \
    X(PCT, "pct")                 \
    X(STALL, "stall")

/* Memory of the simulated device: docs/SIMULATOR.md. */
#define WH_SIM_WEAK_NONE 0u   /* each access sees all that were before it */
#define WH_SIM_WEAK_GPU 1u    /* what a GPU does */
#define WH_SIM_WEAK_FORMAL 2u /* what the memory model allows at most */

typedef enum wh_sim_policy {
#define WH_SIM_POLICY_ENUM_(name, text) WH_SIM_##name,
    WH_SIM_POLICY_LIST(WH_SIM_POLICY_ENUM_)
#undef WH_SIM_POLICY_ENUM_
        WH_SIM_POLICY_COUNT
} wh_sim_policy;

/* Zero means the default everywhere. */
typedef struct wh_sim_options {
    uint64_t struct_bytes; /* sizeof this struct; 0: what the calling code's headers say */
    uint64_t seed;
    wh_sim_policy policy;
    uint32_t policy_arg;    /* sticky: switch once in N points on average (default 8);
                               pct: depth 1..8 (default 2); stall: a lane stops once in
                               N points on average (default 64) */
    uint32_t n_sms;         /* multiprocessors; default 4 */
    uint32_t blocks_per_sm; /* resident blocks per SM; default 2 */
    uint32_t workers;       /* OS threads; 0 and 1: the deterministic single-threaded mode */
    uint64_t step_budget;   /* scheduling points per launch before it counts as a
                               livelock; 0: 2^40. Lanes that all wait in wh_backoff are one earlier
                               (docs/SIMULATOR.md) */
    uint64_t memory_bytes;  /* what alloc may take in all; default 2 GiB */
    uint32_t weak;          /* whether a load may return an old value, and which: WH_SIM_WEAK_*;
                               single-threaded mode only */
    const char *record;     /* file that receives the schedule (NULL: none) */
    const char *replay;     /* file whose schedule is followed (NULL: none) */
    const char *switches;   /* file that receives the schedule in a form that may be thinned
                               out (NULL: none; not together with record) */
    const char *schedules;  /* file that gets a line when the device is closed: a hash of
                               the schedule, and how many points it had (NULL: none) */
} wh_sim_options;

/* ANY: of a wh_handle_kind alone, where a file that no CUDA compiler reads hands the handle on. */
typedef enum wh_target { WH_TARGET_SIM, WH_TARGET_CUDA, WH_TARGET_ANY } wh_target;

typedef struct wh_device_info {
    wh_target target;
    char name[128];  /* "NVIDIA H200", "simulated device" */
    char driver[64]; /* driver version, or the simulator's settings */
    uint32_t n_sms;
    int32_t ordinal; /* the CUDA runtime's number of the GPU; -1: the simulated device */
    uint64_t memory_bytes;
    uint32_t shared_bytes;  /* that a block can have at most */
    uint32_t blocks_per_sm; /* the simulated device: resident blocks; a GPU: 0, it depends */
} wh_device_info;

/* Exact counts of the simulated device since it was opened, without what is still queued on
 * streams; zero on a GPU. */
typedef struct wh_device_counters {
    uint64_t steps;    /* scheduling points passed */
    uint64_t atomics;  /* atomic operations, loads and stores included */
    uint64_t switches; /* lane switches */
} wh_device_counters;

/* wh_device_open as its inline function calls it. sim_bytes: sizeof of the caller's
 * wh_sim_options, where its struct_bytes is 0. in_cuda: 1 if "auto" must be a GPU. Other languages
 * load the symbol wh_device_open: this call with 0 and 0. */
wh_status wh_device_open_for(wh_device **device, const char *spec, const wh_sim_options *sim,
                             size_t sim_bytes, int in_cuda);

/* Opens a device. spec: "cuda:N"; "cuda", the calling thread's current GPU; "sim"; or "auto" (and
 * NULL): in code that a CUDA compiler reads the same as "cuda", elsewhere the current GPU if there
 * is one, else the simulated device. So a CUDA program never gets a simulated device that it did
 * not ask for by name. sim may be NULL (defaults); it is used only when the simulated device is
 * opened. On failure *device is NULL. Errors: BAD_ARGUMENT, NO_DEVICE (wh_last_error_text says
 * why), OUT_OF_MEMORY. */
static inline wh_status wh_device_open(wh_device **device, const char *spec,
                                       const wh_sim_options *sim) {
    return wh_device_open_for(device, spec, sim, sizeof *sim, WH_FILE_IS_CUDA);
}

/* Closes the device, at once or, if it still has heaps, with the last of these: until then the
 * heaps and what lies in the device's memory stay usable, other calls on the device do not. Once
 * for each wh_device_open. What is queued on streams still runs. NULL is ignored. */
void wh_device_close(wh_device *device);
const wh_device_info *wh_device_get_info(const wh_device *device); /* NULL: of no device */

/* How many CUDA devices there are; 0 without a driver or without CUDA built in. */
uint32_t wh_device_cuda_count(void);

/* Device memory, aligned to at least 256 bytes. BAD_ARGUMENT: bytes is 0. */
wh_status wh_device_alloc(wh_device *device, void **p, uint64_t bytes);
wh_status wh_device_free(wh_device *device, void *p);
wh_status wh_device_set(wh_device *device, void *p, int byte, uint64_t bytes);
wh_status wh_device_copy_in(wh_device *device, void *to_device, const void *from, uint64_t bytes);
wh_status wh_device_copy_out(wh_device *device, void *to, const void *from_device, uint64_t bytes);

/* Waits for all work of the device. A kernel that failed is reported here. */
wh_status wh_device_sync(wh_device *device);

/* Streams. Kernels on one stream run one after the other, kernels on different streams may
 * run at the same time; none of them has to. The default stream waits for what was started
 * on all others, and they for it; likewise wait wh_device_sync, free, set, the copies and the
 * timer. Streams here are cudaStream_t of a GPU. The simulated device starts what is on
 * streams when something waits for it, hence a kernel that fails is reported there
 * (docs/SIMULATOR.md); what is queued when the device is closed still runs.
 * destroy: work on the stream is still done. sync: waits for the work of one stream; the
 * simulated device, for that of all. */
wh_status wh_stream_create(wh_device *device, void **stream);
wh_status wh_stream_destroy(wh_device *device, void *stream);
wh_status wh_stream_sync(wh_device *device, void *stream);

/* Times the work started between the two calls on the default stream, in
 * microseconds; end waits for that work. Device events on a GPU, the host's
 * clock on the simulated device. */
wh_status wh_device_timer_begin(wh_device *device);
wh_status wh_device_timer_end(wh_device *device, double *us);

wh_status wh_device_get_counters(const wh_device *device, wh_device_counters *counters);

/* One line about the last WH_DEVICE_ERROR of this device; "" if there was none, or no device. A
 * kernel's error is told once, by the launch or by the first call that waits for the kernel. (A GPU
 * that an error has stopped, an illegal address say, goes on telling it: it does nothing else.) */
const char *wh_device_error_text(const wh_device *device);

/* For kernel launches only (simt/cuda.h): whether the launch keeps the bounds above and its
 * device is of this target; BAD_ARGUMENT if not. */
wh_status wh_launch_check(const wh_launch *launch, wh_target target);

/* For kernel launches only (simt/cuda.h): turns a CUDA error code into a status and remembers
 * its text, which the launching code asks its own CUDA runtime for. */
wh_status wh_device_note_cuda(wh_device *device, int cuda_error, const char *what,
                              const char *text);

#ifdef __cplusplus
}
#endif

#endif /* WH_HAS_HOST */

#include "warpheap/detail/simt/end.h"

#endif
