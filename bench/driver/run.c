/* run.c: one run of the benchmark: resolves the request, opens the device, goes
 * through cases and allocators, writes the results. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/driver/internal.h"

/* --- the request ------------------------------------------------------------------------- */

#define MAX_ALLOCATORS 64

typedef struct plan {
    const wh_allocator_info *allocs[MAX_ALLOCATORS];
    size_t n_allocs;
} plan;

/* Appends a name, after a comma unless it is the first. */
static void append_name(char *text, size_t size, const char *name) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, size - used, "%s%s", used != 0 ? ", " : "", name);
}

static int check_cases(const wh_bench_options *o, char *error, size_t size) {
    for (size_t i = 0; i < o->n_cases; i++) {
        if (!whi_bench_is_case(o->cases[i])) {
            char known[900] = "";
            for (size_t k = 0; wh_bench_case_name(k) != NULL; k++) {
                append_name(known, sizeof known, wh_bench_case_name(k));
            }
            (void)snprintf(error, size, "unknown case '%s'; known: %s", o->cases[i], known);
            return 0;
        }
        if (o->plain && !whi_bench_is_plain_case(o->cases[i])) {
            (void)snprintf(error, size, "the case '%s' has no plain kernels; leave out --plain",
                           o->cases[i]);
            return 0;
        }
    }
    return 1;
}

static int check_kinds(const wh_bench_options *o, char *error, size_t size) {
    const char *known = NULL;
    const char *unknown = whi_bench_unknown_kind(o, &known);
    if (unknown != NULL) {
        (void)snprintf(error, size, "unknown class of graphs '%s'; known: %s", unknown, known);
    }
    return unknown == NULL;
}

static int check_allocs(const wh_bench_options *o, char *error, size_t size) {
    for (size_t i = 0; i < o->n_allocs; i++) {
        if (wh_allocator_find(o->allocs[i]) == NULL) {
            char known[512] = "";
            for (uint32_t k = 0; wh_allocator_at(k) != NULL; k++) {
                append_name(known, sizeof known, wh_allocator_at(k)->name);
            }
            append_name(known, sizeof known, "default");
            (void)snprintf(error, size, "unknown allocator '%s'; known: %s", o->allocs[i], known);
            return 0;
        }
    }
    return 1;
}

static void add_alloc(plan *p, const wh_allocator_info *info) {
    for (size_t i = 0; i < p->n_allocs; i++) {
        if (p->allocs[i] == info) {
            return;
        }
    }
    if (p->n_allocs < MAX_ALLOCATORS) {
        p->allocs[p->n_allocs++] = info;
    }
}

static int plan_allocs(const whi_bench *b, plan *p, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    const wh_target target = b->info->target;
    for (size_t i = 0; i < o->n_allocs; i++) {
        const wh_allocator_info *info = wh_allocator_find(o->allocs[i]);
        if (wh_bench_kernels_find(info->name, target) == NULL) {
            (void)snprintf(error, size, "allocator '%s' does not run on %s", info->name,
                           b->info->name);
            return 0;
        }
        add_alloc(p, info);
    }
    for (uint32_t i = 0; o->n_allocs == 0 && wh_allocator_at(i) != NULL; i++) {
        if (wh_bench_kernels_find(wh_allocator_at(i)->name, target) != NULL) {
            add_alloc(p, wh_allocator_at(i));
        }
    }
    return 1;
}

/* Whether one of the first n allocators is of that family. */
static int has_family(const plan *p, size_t n, const char *family) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(p->allocs[i]->family, family) == 0) {
            return 1;
        }
    }
    return 0;
}

static int check_options(const whi_bench *b, const plan *p, char *error, size_t size) {
    for (size_t i = 0; i < b->options->n_options; i++) {
        const char *family = b->options->options[i].head.family;
        char measured[512] = "";
        if (has_family(p, p->n_allocs, family)) {
            continue;
        }
        for (size_t k = 0; k < p->n_allocs; k++) {
            if (!has_family(p, k, p->allocs[k]->family)) {
                append_name(measured, sizeof measured, p->allocs[k]->family);
            }
        }
        (void)snprintf(error, size,
                       "an option of the family '%s', of which no allocator is measured; measured "
                       "families: %s",
                       family, measured);
        return 0;
    }
    return 1;
}

static int check_heap(const whi_bench *b, const plan *p, char *error, size_t size) {
    const uint64_t bytes =
        b->options->heap_bytes != 0 ? b->options->heap_bytes : b->defaults->heap_bytes;
    for (size_t i = 0; i < p->n_allocs; i++) {
        const wh_heap_options options = whi_bench_heap_options(b, p->allocs[i], 0);
        uint64_t least = 0;
        const wh_status s = wh_heap_min_bytes(&options, &least);
        if (s == WH_BAD_ARGUMENT) {
            (void)snprintf(error, size, "'%s': %s", p->allocs[i]->name, wh_last_error_text());
            return 0;
        }
        if (s == WH_OK && least > bytes) {
            char have[32];
            (void)snprintf(error, size,
                           "a heap of %s bytes is too small for '%s', which needs at least %llu",
                           whi_bench_bytes_text(bytes, have, sizeof have), p->allocs[i]->name,
                           (unsigned long long)least);
            return 0;
        }
    }
    if (b->info->memory_bytes != 0 && bytes > b->info->memory_bytes) {
        (void)snprintf(
            error, size, "a heap of %llu bytes is more than the %llu bytes of the device (%s)",
            (unsigned long long)bytes, (unsigned long long)b->info->memory_bytes, b->info->name);
        return 0;
    }
    return 1;
}

static int check_values(const wh_bench_options *o, char *error, size_t size) {
    if (o->reps > WH_BENCH_MAX_REPS) {
        (void)snprintf(error, size, "at most %u repetitions", WH_BENCH_MAX_REPS);
        return 0;
    }
    for (size_t i = 0; i < o->n_sizes; i++) {
        if (o->sizes[i] == 0 || o->sizes[i] > UINT32_MAX) {
            (void)snprintf(error, size, "size %llu is not in 1..%llu",
                           (unsigned long long)o->sizes[i], (unsigned long long)UINT32_MAX);
            return 0;
        }
    }
    for (size_t i = 0; i < o->n_threads; i++) {
        if (o->threads[i] == 0 || o->threads[i] > UINT32_MAX) {
            (void)snprintf(error, size, "thread count %llu is not in 1..%llu",
                           (unsigned long long)o->threads[i], (unsigned long long)UINT32_MAX);
            return 0;
        }
    }
    return 1;
}

static int runs(const wh_bench_options *o, const char *name) {
    for (size_t k = 0; k < o->n_cases; k++) {
        if (strcmp(o->cases[k], name) == 0) {
            return 1;
        }
    }
    return o->n_cases == 0 && (!o->plain || whi_bench_is_plain_case(name));
}

/* Whether a case whose name begins so is to run. */
static int runs_any(const wh_bench_options *o, const char *begin) {
    int any = 0;
    for (size_t i = 0; wh_bench_case_name(i) != NULL; i++) {
        const char *name = wh_bench_case_name(i);
        any |= strncmp(name, begin, strlen(begin)) == 0 && runs(o, name);
    }
    return any;
}

static int is_same_file(const char *x, const char *y) {
    struct stat a, b;
    return stat(x, &a) == 0 && stat(y, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whether an input file can be used and will be there afterwards. */
static int check_input(const wh_bench_options *o, const char *path, char *error, size_t size) {
    const int is_mesh = whi_bench_is_mesh(path);
    if (!runs_any(o, is_mesh ? "kdtree" : "graph")) {
        (void)snprintf(error, size, "an input file %s, which are not to run",
                       is_mesh ? "that is a mesh is for the cases kdtree and kdtree-*"
                               : "is for the cases graph and graph-*");
        return 0;
    }
    if (o->json != NULL && is_same_file(o->json, path)) {
        (void)snprintf(error, size,
                       "'%s' is an input, which the results would overwrite; give --json "
                       "another file",
                       o->json);
        return 0;
    }
    return 1;
}

/* Files are read before anything runs, so that a bad one costs no time. */
static int check_inputs(whi_bench *b, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    for (size_t i = 0; i < o->n_inputs; i++) {
        if (!check_input(o, o->inputs[i], error, size)) {
            return 0;
        }
    }
    return (!runs_any(o, "graph") || whi_bench_load_graphs(b, error, size)) &&
           (!runs_any(o, "kdtree") || whi_bench_load_scenes(b, error, size));
}

/* What the simulated device has: a bound on what a request can make this machine use. */
#define SIM_MEMORY_BYTES ((uint64_t)8 << 30)

/* --- the device ------------------------------------------------------------------------------ */

/* Why the device could not be opened, and what to do about it. */
static void explain_device(const char *spec, wh_status s, char *error, size_t size) {
    if (s == WH_NO_DEVICE) {
        const uint32_t n = wh_device_cuda_count();
        if (n == 0) {
            (void)snprintf(
                error, size,
                "device '%s': there is no usable CUDA GPU here (%s); --device sim runs on "
                "the simulated device",
                spec, wh_last_error_text());
        } else {
            (void)snprintf(error, size, "device '%s': there are %u CUDA devices, cuda:0 to cuda:%u",
                           spec, n, n - 1);
        }
    } else if (s == WH_BAD_ARGUMENT && getenv("WH_SIM") != NULL &&
               (strcmp(spec, "sim") == 0 || strcmp(spec, "auto") == 0)) {
        (void)snprintf(
            error, size,
            "the environment's WH_SIM=%s is not KEY=VALUE,... with keys seed, policy, arg, "
            "sms, blocks, workers, weak, budget, record, replay, or a value is out of range",
            getenv("WH_SIM"));
    } else if ((s == WH_IO_ERROR || s == WH_BAD_FORMAT) && getenv("WH_SIM") != NULL) {
        (void)snprintf(error, size,
                       "the file of schedules in the environment's WH_SIM=%s: %s; correct its "
                       "path, or record it again",
                       getenv("WH_SIM"), wh_status_text(s));
    } else if (s == WH_BAD_ARGUMENT) {
        (void)snprintf(error, size, "unknown device '%s'; known: auto, sim, cuda, cuda:N", spec);
    } else {
        (void)snprintf(error, size, "device '%s': %s", spec, wh_status_text(s));
    }
}

static int open_device(whi_bench *b, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    const char *spec = o->device != NULL ? o->device : "auto";
    wh_sim_options sim;
    memset(&sim, 0, sizeof sim);
    sim.seed = o->seed;
    sim.policy = o->policy;
    sim.memory_bytes = SIM_MEMORY_BYTES;
    const wh_status s = wh_device_open(&b->device, spec, &sim);
    if (s == WH_OK) {
        b->info = wh_device_get_info(b->device);
        b->on_sim = b->info->target == WH_TARGET_SIM;
        b->defaults = whi_bench_defaults_for(b->on_sim);
        b->reps = o->reps != 0 ? o->reps : b->defaults->reps;
        b->limit = o->limit > 0 ? o->limit : b->defaults->limit;
        return 1;
    }
    explain_device(spec, s, error, size);
    return 0;
}

/* --- the run --------------------------------------------------------------------------------- */

/* The timed kernels are the plain ones. */
static void use_plain(whi_bench *b) {
    const wh_bench_plain_kernels *own = wh_bench_plain_find(b->alloc->name, b->info->target);
    b->plain = *b->kernels;
    b->kernels = &b->plain;
    b->plain.malloc_single = own->malloc_single;
    b->plain.malloc_mixed = own->malloc_mixed;
    b->plain.malloc_warp = own->malloc_warp;
    b->plain.free_all = own->free_all;
    b->plain.free_warp = own->free_warp;
    b->plain.churn = own->churn;
    b->heaps_kernels.malloc_log = own->malloc_log;
    b->heaps_kernels.server_round = own->server_round;
    b->heaps_kernels.slab_insert = own->slab_insert;
    b->heaps_kernels.slab_sweep = own->slab_sweep;
    b->heaps_kernels.slab_insert_pool = own->slab_insert_pool;
    b->heaps_kernels.slab_sweep_pool = own->slab_sweep_pool;
}

static wh_status run_case(whi_bench *b, const plan *p, const char *name) {
    wh_status s = WH_OK;
    for (size_t i = 0; i < p->n_allocs && s == WH_OK; i++) {
        b->alloc = p->allocs[i];
        b->kernels = wh_bench_kernels_find(b->alloc->name, b->info->target);
        b->ledger_kernels = wh_bench_ledger_find(b->alloc->name, b->info->target);
        b->heaps_kernels = *wh_bench_heaps_find(b->alloc->name, b->info->target);
        b->survey_kernels = wh_bench_survey_find(b->alloc->name, b->info->target);
        b->memory_kernels = wh_bench_memory_find(b->info->target);
        if (b->options->plain) {
            use_plain(b);
        }
        s = whi_bench_case(b, name);
        if (s != WH_OK && b->refused) {
            s = whi_bench_emit_refused(b);
        }
        whi_bench_close_heap(b);
    }
    return s;
}

static wh_status run_all(whi_bench *b, const plan *p) {
    const wh_bench_options *o = b->options;
    void *counts = NULL;
    wh_status s = wh_device_alloc(b->device, &counts, sizeof(wh_bench_counts));
    if (s != WH_OK) {
        return whi_bench_fail(b, s, "set-up");
    }
    b->arrays.counts = counts;
    for (size_t i = 0; s == WH_OK && wh_bench_case_name(i) != NULL; i++) {
        if (runs(o, wh_bench_case_name(i))) {
            s = run_case(b, p, wh_bench_case_name(i));
        }
    }
    whi_bench_progress_end(b);
    (void)wh_device_free(b->device, b->arrays.ptrs);
    (void)wh_device_free(b->device, b->arrays.born);
    (void)wh_device_free(b->device, b->arrays.claimed);
    (void)wh_device_free(b->device, counts);
    return s;
}

static wh_bench_outcome run_on_device(whi_bench *b, const plan *p, char *error, size_t size) {
    const wh_bench_options *o = b->options;
    if (o->json != NULL) { /* before the work, not after it */
        b->json = fopen(o->json, "w");
        b->json_since = whi_bench_wall_seconds();
        if (b->json == NULL) {
            (void)snprintf(error, size, "cannot write '%s'", o->json);
            return WH_BENCH_USAGE;
        }
    }
    wh_bench_outcome outcome = WH_BENCH_OK;
    b->rows = json_array();
    b->left_out_rows = json_array();
    if (run_all(b, p) != WH_OK) {
        (void)snprintf(error, size, "%s", b->error);
        outcome = WH_BENCH_FAILED;
    } else if (b->total_bad != 0) {
        (void)snprintf(error, size, "%llu bad blocks: overlapping, misaligned or outside the heap",
                       (unsigned long long)b->total_bad);
        outcome = WH_BENCH_FAILED;
    } else if (b->total_refused != 0) {
        (void)snprintf(error, size, "%llu cases ended with a launch that the GPU refused",
                       (unsigned long long)b->total_refused);
        outcome = WH_BENCH_FAILED;
    } else if (json_array_size(b->rows) == 0 && json_array_size(b->left_out_rows) == 0) {
        (void)snprintf(error, size,
                       "nothing was measured: these allocators, sizes and heap have no part of "
                       "these cases; give a larger --heap, smaller --sizes, or other allocators");
        outcome = WH_BENCH_USAGE;
    }
    if (b->json != NULL) {
        const int failed = whi_bench_write_json(b, error) != 0;
        if ((fclose(b->json) != 0 || failed) && outcome == WH_BENCH_OK) {
            (void)snprintf(error, size, "cannot write '%s'", o->json);
            outcome = WH_BENCH_FAILED;
        }
    }
    json_decref(b->rows);
    json_decref(b->left_out_rows);
    return outcome;
}

wh_bench_outcome wh_bench_run(const wh_bench_options *options, char *error, size_t error_size) {
    wh_bench_outcome outcome = WH_BENCH_USAGE;
    plan p;
    memset(&p, 0, sizeof p);
    error[0] = '\0';
    if (!check_values(options, error, error_size) || !check_cases(options, error, error_size) ||
        !check_allocs(options, error, error_size) || !check_kinds(options, error, error_size)) {
        return outcome;
    }
    whi_bench *b = calloc(1, sizeof *b);
    if (b == NULL) {
        (void)snprintf(error, error_size, "out of memory");
        return WH_BENCH_FAILED;
    }
    b->options = options;
    b->awake = options->awake;
    b->seed = options->seed;
    if (open_device(b, error, error_size)) {
        if (plan_allocs(b, &p, error, error_size) && check_options(b, &p, error, error_size) &&
            check_heap(b, &p, error, error_size) && check_inputs(b, error, error_size)) {
            outcome = run_on_device(b, &p, error, error_size);
        }
        whi_bench_drop_sets(b);
        whi_bench_drop_graphs(b);
        whi_bench_drop_scenes(b);
        wh_device_close(b->device);
    }
    free(b);
    return outcome;
}

static wh_bench_outcome tell_about(const whi_bench *b, const plan *p, char *error, size_t size) {
    int failed = 0;
    json_t *header = whi_bench_header(b, "", &failed);
    json_t *names = json_array();
    for (size_t i = 0; i < p->n_allocs; i++) {
        failed |= json_array_append_new(names, json_string(p->allocs[i]->name));
    }
    failed |= json_object_set_new(header, "allocs", names);
    failed |= whi_bench_write_line(header, b->options->stream);
    json_decref(header);
    (void)snprintf(error, size, "%s", failed ? "cannot write what is measured" : "");
    return failed ? WH_BENCH_FAILED : WH_BENCH_OK;
}

wh_bench_outcome wh_bench_about(const wh_bench_options *options, char *error, size_t error_size) {
    wh_bench_outcome outcome = WH_BENCH_USAGE;
    plan p;
    memset(&p, 0, sizeof p);
    error[0] = '\0';
    whi_bench *b = calloc(1, sizeof *b);
    if (b == NULL) {
        (void)snprintf(error, error_size, "out of memory");
        return WH_BENCH_FAILED;
    }
    b->options = options;
    if (check_allocs(options, error, error_size) && open_device(b, error, error_size)) {
        if (plan_allocs(b, &p, error, error_size)) {
            outcome = tell_about(b, &p, error, error_size);
        }
        wh_device_close(b->device);
    }
    free(b);
    return outcome;
}
