/* defaults.c: what each case does unless the user says otherwise. */
#include "bench/driver/internal.h"

static const uint64_t gpu_single[] = {16, 64, 256, 1024, 4096, 8192, 0};
static const uint64_t gpu_mixed[] = {64, 1024, 4096, 8192, 0};
static const uint64_t gpu_warp[] = {16, 512, 4096, 8192, 0};
static const uint64_t gpu_scaling[] = {16, 512, 8192, 0};
static const uint64_t gpu_churn[] = {256, 4096, 0};
static const uint64_t gpu_large[] = {16 << 10, 64 << 10, 1 << 20, 16 << 20, 0};
static const uint64_t gpu_utilization[] = {16,   32,   48,   64,   128,  256, 512,
                                           1024, 1050, 2048, 4096, 8192, 0};
static const uint64_t all_full_single[] = {256, 0};
static const uint64_t all_full_mixed[] = {4096, 0};
static const uint64_t all_pressure[] = {256, 4096, 0};
static const uint64_t all_streams[] = {256, 4096, 0};
static const uint64_t all_waste[] = {8192, 1 << 20, 0};
static const uint64_t all_server[] = {4096, 0};
static const uint64_t gpu_first[] = {16, 256, 1024, 4096, 8192, 0};
static const uint64_t gpu_graph_batches[] = {1000, 10000, 100000, 1000000, 0};
static const uint64_t sim_graph_batches[] = {64, 1024, 0};
static const uint64_t sim_first[] = {16, 8192, 0};
static const uint64_t sim_mixed[] = {64, 4096, 0};
static const uint64_t sim_scaling[] = {16, 8192, 0};
static const uint64_t sim_large[] = {16 << 10, 64 << 10, 1 << 20, 0};
static const uint64_t sim_utilization[] = {48, 256, 1050, 4096, 8192, 0};

/* A GPU gets the work that published figures were measured with; the simulated device
 * what ends within three minutes on one core, all cases and allocators together. */
static const whi_bench_defaults gpu_defaults = {
    .heap_bytes = (uint64_t)8 << 30,
    .utilization_bytes = (uint64_t)2 << 30,
    .reps = 10,
    .limit = 0.5,
    .threads = 1000000,
    .warps = 100000,
    .scaling_max = 1 << 20,
    .scaling_factor = 2,
    .churn_threads = 200000,
    .churn_steps = 20,
    .batch = 100000,
    .full_bytes = (uint64_t)2 << 30,
    .full_threads = 100000,
    .refuse_bytes = (uint64_t)64 << 20,
    .refuse_threads = 1000000,
    .pressure_bytes = (uint64_t)4 << 20,
    .pressure_reps = 3,
    .drift_bytes = (uint64_t)512 << 20,
    .drift_batch = 1000000,
    .drift_first = 65536,
    .stream_threads = 32768,
    .waste_sizes = 0,
    .scenarios_bytes = (uint64_t)8 << 30,
    .scenarios_threads = 100000,
    .server_bytes = (uint64_t)8 << 30,
    .server_threads = 262144,
    .server_rounds = 200,
    .cells_bytes = (uint64_t)96 << 20,
    .cells = 2048,
    .cells_steps = 60,
    .slab_keys = 1000000,
    .slab_rounds = 10,
    .fill_log_bytes = (uint64_t)2 << 30,
    .fill_log_batch = 100000,
    .fill_log_last = 16,
    .graph_scale = 20,
    .graph_batches = gpu_graph_batches,
    .single = gpu_single,
    .mixed = gpu_mixed,
    .warp = gpu_warp,
    .scaling = gpu_scaling,
    .churn = gpu_churn,
    .large = gpu_large,
    .utilization = gpu_utilization,
    .full_single = all_full_single,
    .full_mixed = all_full_mixed,
    .pressure = all_pressure,
    .streams = all_streams,
    .waste = all_waste,
    .server = all_server,
    .first = gpu_first,
};
static const whi_bench_defaults sim_defaults = {
    .heap_bytes = (uint64_t)128 << 20,
    .utilization_bytes = (uint64_t)4 << 20,
    .reps = 3,
    .limit = 0,
    .threads = 4096,
    .warps = 256,
    .scaling_max = 1 << 12,
    .scaling_factor = 4,
    .churn_threads = 1024,
    .churn_steps = 20,
    .batch = 2048,
    .full_bytes = (uint64_t)4 << 20,
    .full_threads = 4096,
    .refuse_bytes = (uint64_t)2 << 20,
    .refuse_threads = 2048,
    .pressure_bytes = (uint64_t)64 << 10,
    .pressure_reps = 1,
    .drift_bytes = (uint64_t)1 << 20,
    .drift_batch = 4096,
    .drift_first = 4096,
    .stream_threads = 512,
    .waste_sizes = 1024,
    .scenarios_bytes = (uint64_t)16 << 20,
    .scenarios_threads = 512,
    .server_bytes = (uint64_t)4 << 20,
    .server_threads = 128,
    .server_rounds = 20,
    .cells_bytes = (uint64_t)4 << 20,
    .cells = 96,
    .cells_steps = 20,
    .slab_keys = 1024,
    .slab_rounds = 3,
    .fill_log_bytes = (uint64_t)1 << 20,
    .fill_log_batch = 512,
    .fill_log_last = 2,
    .graph_scale = 9,
    .graph_batches = sim_graph_batches,
    .single = gpu_single,
    .mixed = sim_mixed,
    .warp = gpu_warp,
    .scaling = sim_scaling,
    .churn = gpu_churn,
    .large = sim_large,
    .utilization = sim_utilization,
    .full_single = all_full_single,
    .full_mixed = all_full_mixed,
    .pressure = all_pressure,
    .streams = all_streams,
    .waste = all_waste,
    .server = all_server,
    .first = sim_first,
};

const whi_bench_defaults *whi_bench_defaults_for(int on_sim) {
    return on_sim ? &sim_defaults : &gpu_defaults;
}
