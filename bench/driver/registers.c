/* registers.c: `warpheap registers`: what a malloc and a free cost a kernel in registers
 * and local memory. */
#include <string.h>

#include "bench/driver/internal.h"

/* What tools/compile_cost.py writes; in this order it is shown. */
static const struct figure {
    const char *key, *unit;
} figures[] = {
    {"registers", "registers a thread"},
    {"max_threads", "threads a block at most"},
    {"stack_bytes", "bytes of stack a thread"},
    {"code_bytes", "bytes of machine code"},
    {"cpu_seconds", "s of CPU time to compile it"},
};
enum { N_FIGURES = sizeof figures / sizeof figures[0] };

wh_bench_outcome wh_bench_compile_cost(const char *file, FILE *out, char *error,
                                       size_t error_size) {
    json_error_t e;
    json_t *root = json_load_file(file, 0, &e);
    if (root == NULL) {
        (void)snprintf(error, error_size, "'%s': %s", file, e.text);
        return WH_BENCH_USAGE;
    }
    const char *arch = json_string_value(json_object_get(root, "arch"));
    const char *nvcc = json_string_value(json_object_get(root, "nvcc"));
    int complete = arch != NULL && nvcc != NULL;
    for (int i = 0; i < N_FIGURES; i++) {
        complete = complete && json_is_number(json_object_get(root, figures[i].key));
    }
    if (complete) {
        (void)fprintf(out, "one plain kernel with one wh_malloc, %s, nvcc %s:\n", arch, nvcc);
    } else {
        (void)snprintf(error, error_size, "'%s' is not a file of tools/compile_cost.py", file);
    }
    for (int i = 0; complete && i < N_FIGURES; i++) {
        const double value = json_number_value(json_object_get(root, figures[i].key));
        (void)fprintf(out, "%10.10g %s\n", value, figures[i].unit);
    }
    json_decref(root);
    return complete ? WH_BENCH_OK : WH_BENCH_USAGE;
}

#if !WH_HAVE_CUDA

wh_bench_outcome wh_bench_registers(const wh_bench_options *options, char *error,
                                    size_t error_size) {
    (void)options;
    (void)snprintf(error, error_size,
                   "registers are counted by the compiler for the GPU: they need a CUDA build "
                   "(-DWARPHEAP_CUDA=ON) and a GPU; tools/compile_cost.py needs nvcc alone");
    return WH_BENCH_USAGE;
}

#else

#include <cuda_runtime_api.h>

typedef struct query {
    const wh_bench_options *options;
    wh_device *device;
    json_t *rows;
    int header_shown;
} query;

static int wanted(const query *q, const wh_allocator_info *info) {
    for (size_t i = 0; i < q->options->n_allocs; i++) {
        if (wh_allocator_find(q->options->allocs[i]) == info) {
            return 1;
        }
    }
    return q->options->n_allocs == 0;
}

static int show(query *q, const char *alloc, const char *kernel,
                const struct cudaFuncAttributes *f) {
    FILE *out = q->options->table;
    if (out != NULL && !q->header_shown) {
        q->header_shown = 1;
        (void)fprintf(out, "%-12s %-17s %9s %11s %11s\n", "alloc", "kernel", "registers",
                      "local bytes", "max threads");
    }
    if (out != NULL) {
        (void)fprintf(out, "%-12s %-17s %9d %11zu %11d\n", alloc, kernel, f->numRegs,
                      f->localSizeBytes, f->maxThreadsPerBlock);
    }
    json_t *j = json_object();
    int e = json_object_set_new(j, "alloc", json_string(alloc));
    e |= json_object_set_new(j, "case", json_string("registers"));
    e |= json_object_set_new(j, "op", json_string(kernel));
    e |= json_object_set_new(j, "registers", json_integer(f->numRegs));
    e |= json_object_set_new(j, "local_bytes", json_integer((json_int_t)f->localSizeBytes));
    e |= json_object_set_new(j, "max_threads", json_integer(f->maxThreadsPerBlock));
    return e | json_array_append_new(q->rows, j);
}

static wh_bench_outcome ask(query *q, char *error, size_t size) {
    const wh_allocator_info *info = NULL;
    for (uint32_t i = 0; (info = wh_allocator_at(i)) != NULL; i++) {
        const wh_bench_register_kernels *all = wh_bench_registers_find(info->name, WH_TARGET_CUDA);
        for (uint32_t n = 0; all != NULL && wanted(q, info) && n < WH_BENCH_REGISTER_KERNELS; n++) {
            const wh_bench_register_kernel *k = &all->kernel[n];
            struct cudaFuncAttributes f;
            const cudaError_t e = cudaFuncGetAttributes(&f, k->symbol);
            if (e != cudaSuccess) {
                (void)snprintf(error, size, "kernel %s of '%s': %s", k->name, info->name,
                               cudaGetErrorString(e));
                return WH_BENCH_FAILED;
            }
            if (show(q, info->name, k->name, &f) != 0) {
                (void)snprintf(error, size, "out of memory");
                return WH_BENCH_FAILED;
            }
        }
    }
    return WH_BENCH_OK;
}

static wh_bench_outcome write_json(const query *q, char *error, size_t size) {
    json_t *meta = json_object();
    int e = whi_bench_set_meta(meta, wh_device_get_info(q->device));
    e |= json_object_set_new(meta, "block_threads", json_integer(WH_BENCH_BLOCK_THREADS));
    FILE *file = fopen(q->options->json, "w");
    if (file != NULL) {
        e |= whi_bench_write_lines(file, meta, q->rows);
        e |= fclose(file) != 0;
    }
    json_decref(meta);
    if (file == NULL || e != 0) {
        (void)snprintf(error, size, "cannot write '%s'", q->options->json);
        return file == NULL ? WH_BENCH_USAGE : WH_BENCH_FAILED;
    }
    return WH_BENCH_OK;
}

wh_bench_outcome wh_bench_registers(const wh_bench_options *options, char *error,
                                    size_t error_size) {
    const char *spec = options->device != NULL ? options->device : "cuda";
    query q;
    memset(&q, 0, sizeof q);
    q.options = options;
    error[0] = '\0';
    for (size_t i = 0; i < options->n_allocs; i++) {
        if (wh_allocator_find(options->allocs[i]) == NULL) {
            (void)snprintf(error, error_size, "unknown allocator '%s'", options->allocs[i]);
            return WH_BENCH_USAGE;
        }
    }
    if (strncmp(spec, "cuda", 4) != 0 || wh_device_open(&q.device, spec, NULL) != WH_OK) {
        (void)snprintf(error, error_size,
                       "device '%s': the driver tells of registers only where there is a CUDA "
                       "GPU; tools/compile_cost.py needs nvcc alone",
                       spec);
        return WH_BENCH_USAGE;
    }
    q.rows = json_array();
    wh_bench_outcome outcome = ask(&q, error, error_size);
    if (outcome == WH_BENCH_OK && options->json != NULL) {
        outcome = write_json(&q, error, error_size);
    }
    json_decref(q.rows);
    wh_device_close(q.device);
    return outcome;
}

#endif
