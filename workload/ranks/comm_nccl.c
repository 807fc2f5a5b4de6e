/* comm_nccl.c: the communicator whose data goes by NCCL, from GPU to GPU. Lines and notices go by
 * MPI (comm_mpi.c), so a rank that has ended is known by name here, too: NCCL's own calls are
 * started without waiting, asked for until a deadline, and aborted then. NCCL's stream is one that
 * waits for the default stream, and the default stream for it.
 */
#include "workload/ranks/comm_own.h"

#if WH_HAVE_NCCL

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What ranks tell each other before NCCL begins. */
typedef struct introduction {
    ncclUniqueId id; /* of rank 0 */
    char machine[64], gpu[32];
} introduction;

/* What the engine has beside the communicator. */
typedef struct nccl_state {
    ncclComm_t comm;
    cudaStream_t stream;
    int gpu;
    unsigned char *out, *in; /* device memory, for data that goes and that comes */
    uint64_t out_room, in_room;
} nccl_state;

static wh_status engine_failed(wh_comm *c, wh_status status, const char *engine, const char *text) {
    nccl_state *n = c->engine_state;
    (void)whi_comm_fail(c, c->rank, WH_COMM_ENGINE, status, "rank %d: %s: %.120s", c->rank, engine,
                        text);
    whi_comm_tell(c);
    if (n->comm != NULL) {
        (void)ncclCommAbort(n->comm);
        n->comm = NULL;
    }
    return status;
}

#define TRY_CUDA(c, call)                                                             \
    do {                                                                              \
        const cudaError_t e_ = call;                                                  \
        if (e_ != cudaSuccess) {                                                      \
            const wh_status s_ =                                                      \
                e_ == cudaErrorMemoryAllocation ? WH_OUT_OF_MEMORY : WH_DEVICE_ERROR; \
            return engine_failed((c), s_, "CUDA", cudaGetErrorString(e_));            \
        }                                                                             \
    } while (0)

#define TRY_NCCL(c, call)                                                               \
    do {                                                                                \
        const ncclResult_t e_ = call;                                                   \
        if (e_ != ncclSuccess && e_ != ncclInProgress) {                                \
            return engine_failed((c), WH_DEVICE_ERROR, "NCCL", ncclGetErrorString(e_)); \
        }                                                                               \
    } while (0)

/* Data did not come in time, or another rank has failed: what NCCL still does is ended. */
static wh_status give_up(wh_comm *c, int is_told) {
    nccl_state *n = c->engine_state;
    const wh_status s = is_told ? c->failure.status : whi_comm_roll_call(c);
    (void)ncclCommAbort(n->comm);
    n->comm = NULL;
    return s;
}

/* Until NCCL has taken the call (`stream` 0), or until the stream has done it. */
static wh_status wait_for(wh_comm *c, int stream) {
    nccl_state *n = c->engine_state;
    const double last = whi_comm_now() + c->seconds;
    uint64_t rounds = 0;
    for (;;) {
        ncclResult_t state = ncclSuccess;
        TRY_NCCL(c, ncclCommGetAsyncError(n->comm, &state));
        TRY_NCCL(c, state);
        if (state == ncclSuccess && !stream) {
            return WH_OK;
        }
        if (state == ncclSuccess) {
            const cudaError_t e = cudaStreamQuery(n->stream);
            if (e == cudaSuccess) {
                return WH_OK;
            }
            if (e != cudaErrorNotReady) {
                return engine_failed(c, WH_DEVICE_ERROR, "CUDA", cudaGetErrorString(e));
            }
        }
        const int is_told = whi_comm_is_told(c);
        if (is_told || whi_comm_now() > last) {
            return give_up(c, is_told);
        }
        whi_comm_pause(c, &rounds);
    }
}

static wh_status make_room(wh_comm *c, unsigned char **memory, uint64_t *room, uint64_t bytes) {
    if (bytes > *room) {
        TRY_CUDA(c, cudaFree(*memory));
        *memory = NULL;
        *room = 0;
        TRY_CUDA(c, cudaMalloc((void **)memory, bytes + bytes / 4));
        *room = bytes + bytes / 4;
    }
    return WH_OK;
}

/* Between memories of GPUs: those of x, or of the communicator. */
static wh_status send_and_receive(wh_comm *c, const whi_comm_exchange *x) {
    nccl_state *n = c->engine_state;
    uint64_t out = 0, in = 0;
    TRY_NCCL(c, ncclGroupStart());
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank) {
            continue;
        }
        const void *from = x->on_device ? x->from[r] : n->out + out;
        void *to = x->on_device ? x->to[r] : n->in + in;
        if (x->from_bytes[r] != 0) {
            TRY_NCCL(c, ncclSend(from, x->from_bytes[r], ncclUint8, r, n->comm, n->stream));
        }
        if (x->to_bytes[r] != 0) {
            TRY_NCCL(c, ncclRecv(to, x->to_bytes[r], ncclUint8, r, n->comm, n->stream));
        }
        out += x->from_bytes[r];
        in += x->to_bytes[r];
    }
    TRY_NCCL(c, ncclGroupEnd());
    return WH_OK;
}

/* To device memory, or back from it: what goes to other ranks, or came from them. */
static wh_status stage(wh_comm *c, const whi_comm_exchange *x, int is_out) {
    nccl_state *n = c->engine_state;
    const uint64_t *bytes = is_out ? x->from_bytes : x->to_bytes;
    uint64_t at = 0;
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank || bytes[r] == 0) {
            continue;
        }
        if (is_out) {
            TRY_CUDA(c, cudaMemcpyAsync(n->out + at, x->from[r], bytes[r], cudaMemcpyHostToDevice,
                                        n->stream));
        } else {
            TRY_CUDA(c, cudaMemcpyAsync(x->to[r], n->in + at, bytes[r], cudaMemcpyDeviceToHost,
                                        n->stream));
        }
        at += bytes[r];
    }
    return WH_OK;
}

static wh_status exchange_on_device(wh_comm *c, const whi_comm_exchange *x) {
    nccl_state *n = c->engine_state;
    const int r = c->rank;
    if (x->from_bytes[r] != 0) {
        TRY_CUDA(c, cudaMemcpyAsync(x->to[r], x->from[r], x->from_bytes[r],
                                    cudaMemcpyDeviceToDevice, n->stream));
    }
    const wh_status s = send_and_receive(c, x);
    return s == WH_OK ? wait_for(c, 1) : s;
}

static wh_status exchange_on_host(wh_comm *c, const whi_comm_exchange *x) {
    nccl_state *n = c->engine_state;
    uint64_t out = 0, in = 0;
    for (int r = 0; r < c->size; r++) {
        out += r != c->rank ? x->from_bytes[r] : 0;
        in += r != c->rank ? x->to_bytes[r] : 0;
    }
    wh_status s = make_room(c, &n->out, &n->out_room, out);
    s = s == WH_OK ? make_room(c, &n->in, &n->in_room, in) : s;
    s = s == WH_OK ? stage(c, x, 1) : s;
    s = s == WH_OK ? send_and_receive(c, x) : s;
    s = s == WH_OK ? wait_for(c, 1) : s;
    s = s == WH_OK ? stage(c, x, 0) : s;
    return s == WH_OK ? wait_for(c, 1) : s;
}

/* The GPU of NCCL is the current one between the two. */
static wh_status begin_on_gpu(wh_comm *c, int *current) {
    const nccl_state *n = c->engine_state;
    TRY_CUDA(c, cudaGetDevice(current));
    TRY_CUDA(c, cudaSetDevice(n->gpu));
    return WH_OK;
}

static wh_status end_on_gpu(wh_comm *c, int current, wh_status s) {
    if (s == WH_OK) {
        TRY_CUDA(c, cudaSetDevice(current));
    } else {
        (void)cudaSetDevice(current);
    }
    return s;
}

static wh_status exchange(wh_comm *c, const whi_comm_exchange *x) {
    int current = 0;
    wh_status s = begin_on_gpu(c, &current);
    if (s != WH_OK) {
        return s;
    }
    s = x->on_device ? exchange_on_device(c, x) : exchange_on_host(c, x);
    return end_on_gpu(c, current, s);
}

static wh_status reduce_on_gpu(wh_comm *c, const whi_comm_numbers *numbers) {
    nccl_state *n = c->engine_state;
    const ncclDataType_t type = numbers->type == WH_COMM_U64 ? ncclUint64 : ncclFloat64;
    const ncclRedOp_t ops[] = {ncclSum, ncclMax, ncclMin};
    const uint64_t bytes = numbers->n * 8;
    const wh_status room = make_room(c, &n->out, &n->out_room, bytes);
    if (room != WH_OK) {
        return room;
    }
    TRY_CUDA(c, cudaMemcpyAsync(n->out, numbers->data, bytes, cudaMemcpyHostToDevice, n->stream));
    TRY_NCCL(c,
             ncclAllReduce(n->out, n->out, numbers->n, type, ops[numbers->op], n->comm, n->stream));
    const wh_status s = wait_for(c, 1);
    if (s != WH_OK) {
        return s;
    }
    TRY_CUDA(c, cudaMemcpyAsync(numbers->data, n->out, bytes, cudaMemcpyDeviceToHost, n->stream));
    return wait_for(c, 1);
}

static wh_status reduce(wh_comm *c, const whi_comm_numbers *numbers) {
    int current = 0;
    const wh_status s = begin_on_gpu(c, &current);
    return s != WH_OK ? s : end_on_gpu(c, current, reduce_on_gpu(c, numbers));
}

static void close_nccl(wh_comm *c) {
    nccl_state *n = c->engine_state;
    if (n->comm != NULL) {
        (void)(c->dead ? ncclCommAbort(n->comm) : ncclCommFinalize(n->comm));
        if (!c->dead && wait_for(c, 0) == WH_OK) {
            (void)ncclCommDestroy(n->comm);
        }
    }
    (void)cudaFree(n->out);
    (void)cudaFree(n->in);
    (void)cudaStreamDestroy(n->stream);
    free(n);
    c->engine_state = NULL;
}

static int takes(const wh_comm *c, const wh_device *device) {
    const nccl_state *n = c->engine_state;
    return wh_device_get_info(device)->ordinal == n->gpu;
}

static const whi_comm_engine engine = {exchange, reduce, close_nccl, takes};

/* The GPU: the one of the options, or the current one. */
static int find_gpu(const wh_device *device, int *gpu) {
    *gpu = device != NULL ? wh_device_get_info(device)->ordinal : 0;
    return device != NULL ? *gpu >= 0 : cudaGetDevice(gpu) == cudaSuccess;
}

/* NCCL wants a GPU for each rank; all ranks find the same. */
static wh_status check_gpus(wh_comm *c, const introduction *all) {
    for (int b = 1; b < c->size; b++) {
        for (int a = 0; a < b; a++) {
            if (memcmp(all[a].machine, all[b].machine, sizeof all[a].machine) == 0 &&
                memcmp(all[a].gpu, all[b].gpu, sizeof all[a].gpu) == 0) {
                return whi_comm_fail(c, b, WH_COMM_UNEQUAL, WH_BAD_ARGUMENT,
                                     "rank %d and rank %d are both on GPU %.31s of %.63s: NCCL "
                                     "wants one for each rank",
                                     a, b, all[b].gpu, all[b].machine);
            }
        }
    }
    return WH_OK;
}

static wh_status begin(wh_comm *c, const wh_device *device) {
    nccl_state *n = c->engine_state;
    int current = 0;
    introduction own;
    wh_comm_buffer all = {0};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    memset(&own, 0, sizeof own);
    (void)gethostname(own.machine, sizeof own.machine - 1);
    if (c->rank == 0 && ncclGetUniqueId(&own.id) != ncclSuccess) {
        wh_comm_report(c, WH_DEVICE_ERROR, "ncclGetUniqueId failed");
    }
    if (!find_gpu(device, &n->gpu)) {
        wh_comm_report(c, WH_BAD_ARGUMENT, "NCCL wants a GPU, not the simulated device");
    } else if (cudaGetDevice(&current) != cudaSuccess || cudaSetDevice(n->gpu) != cudaSuccess ||
               cudaStreamCreate(&n->stream) != cudaSuccess ||
               cudaDeviceGetPCIBusId(own.gpu, sizeof own.gpu, n->gpu) != cudaSuccess) {
        wh_comm_report(c, WH_NO_DEVICE, cudaGetErrorString(cudaGetLastError()));
    }
    wh_status s = wh_comm_all_gather(c, &own, sizeof own, &all); /* by MPI */
    s = s == WH_OK ? check_gpus(c, (const introduction *)(const void *)all.data) : s;
    if (s == WH_OK) {
        memcpy(&own.id, all.data, sizeof own.id);
        c->engine = &engine;
        TRY_NCCL(c, ncclCommInitRankConfig(&n->comm, c->size, own.id, c->rank, &config));
        s = wait_for(c, 0);
        s = end_on_gpu(c, current, s);
    }
    wh_comm_buffer_free(&all);
    return s;
}

wh_status wh_comm_open_nccl(wh_comm **comm, const wh_comm_options *options,
                            wh_comm_failure *failure) {
    wh_status s = wh_comm_open_mpi(comm, options, failure);
    if (s != WH_OK) {
        return s;
    }
    wh_comm *c = *comm;
    c->engine_state = calloc(1, sizeof(nccl_state));
    if (c->engine_state == NULL) {
        wh_comm_report(c, WH_OUT_OF_MEMORY, "no host memory for NCCL");
    }
    s = wh_comm_agree(c);
    if (s == WH_OK) {
        s = begin(c, options != NULL ? options->device : NULL);
    }
    if (s != WH_OK) {
        if (failure != NULL) {
            *failure = c->failure;
        }
    }
    return s;
}

#else

#include <stdio.h>
#include <string.h>

wh_status wh_comm_open_nccl(wh_comm **comm, const wh_comm_options *options,
                            wh_comm_failure *failure) {
    (void)options;
    if (comm != NULL) {
        *comm = NULL;
    }
    if (failure != NULL) {
        memset(failure, 0, sizeof *failure);
        failure->rank = -1;
        failure->status = WH_UNSUPPORTED;
        (void)snprintf(failure->text, sizeof failure->text,
                       "this build has no NCCL: it needs CUDA, nccl.h and libnccl");
    }
    return WH_UNSUPPORTED;
}

#endif
