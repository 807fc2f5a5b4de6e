/* calls.c: what a tool is told through NVTX, by a stand-in (injection.c) that notes it: ranges of
 * host calls, the heap as a pool, live blocks as regions with names. And that without a tool, or
 * without WH_NVTX, nothing is told and all calls work. Each part is a process: NVTX looks for a
 * tool once.
 *
 *     nvtx_calls INJECTION [PART] */
#define WH_ALLOCATOR tessera

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/sim_test.h"

#include "host/heap_internal.h"
#include "warpheap/nvtx.h"
#include "warpheap/options.h"
#include "warpheap/snapshot.h"
#include "warpheap/warpheap.h"

#define MIB ((uint64_t)1 << 20)
#define THREADS 200u

static int failures;
#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                            \
        }                                                          \
    } while (0)

typedef struct call_args {
    wh_heap_ref h;
    void **p;
} call_args;

static uint64_t size_of(uint64_t thread) {
    return thread == 0 ? 100000 : 1 + thread * 7 % 500;
}

WH_KERNEL(allocate, call_args, a) {
    const uint64_t t = wh_thread_id(), n = t == 0 ? 100000 : 1 + t * 7 % 500;
    a.p[t] = wh_malloc_at(a.h, n, WH_TAG(1 + (uint32_t)t % 3));
}
WH_KERNEL(free_odd, call_args, a) {
    const uint64_t t = wh_thread_id();
    if (t % 2 == 1) {
        wh_free(a.h, a.p[t]);
    }
}

typedef struct setup {
    wh_device *device;
    wh_heap *heap;
    void *memory;
    call_args a;
} setup;

static setup make(uint64_t checked) {
    wh_tessera_options own = WH_TESSERA_OPTIONS;
    wh_heap_options o;
    setup x;
    memset(&x, 0, sizeof x);
    memset(&o, 0, sizeof o);
    own.checked = checked;
    CHECK(wh_device_open(&x.device, "sim", NULL) == WH_OK);
    CHECK(wh_device_alloc(x.device, &x.memory, 32 * MIB) == WH_OK);
    o.device = x.device;
    o.memory = x.memory;
    o.bytes = 32 * MIB;
    o.options = &own.head;
    CHECK(wh_heap_create(&x.heap, &o) == WH_OK);
    CHECK(wh_heap_handle(x.heap, &x.a.h) == WH_OK);
    void *p = NULL;
    CHECK(wh_device_alloc(x.device, &p, THREADS * sizeof *x.a.p) == WH_OK);
    x.a.p = p;
    const wh_launch l = grid(x.device, 1, THREADS);
    CHECK(allocate(&l, &x.a) == WH_OK);
    CHECK(free_odd(&l, &x.a) == WH_OK);
    return x;
}
static void drop(setup *x) {
    CHECK(wh_heap_destroy(x->heap) == WH_OK);
    wh_device_close(x->device);
}

/* --- what the tool noted ---------------------------------------------------------------------- */

/* How many lines begin so; -1: the tool was not there. */
static int lines(const char *begin) {
    char line[300];
    int n = 0;
    FILE *f = fopen(getenv("WH_NVTX_LOG"), "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        n += strncmp(line, begin, strlen(begin)) == 0;
        CHECK(strstr(line, "unknown") == NULL && strstr(line, "badly") == NULL &&
              strstr(line, "wrong") == NULL);
    }
    if (f == NULL) {
        return -1;
    }
    (void)fclose(f);
    return n;
}
static int has(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int has(const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return lines(text);
}

/* Regions behind the last reset: the metadata, and each live block with its size and name. */
static void compare(const setup *x, int checked) {
    char line[300];
    uint32_t regions = 0, found = 0;
    FILE *f = fopen(getenv("WH_NVTX_LOG"), "r");
    CHECK(f != NULL);
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        uint64_t at = 0, bytes = 0;
        if (strncmp(line, "reset", 5) == 0) {
            regions = found = 0;
        }
        if (sscanf(line, "region %" SCNu64 " %" SCNu64, &at, &bytes) != 2) {
            continue;
        }
        regions++;
        for (uint32_t t = 0; t < THREADS; t += 2) {
            const uint64_t wanted = size_of(t);
            if ((uint64_t)(uintptr_t)x->a.p[t] == at) {
                found++;
                CHECK(checked ? bytes == wanted : bytes >= wanted);
                CHECK(!checked || has("name %" PRIu64 " tag %u\n", at, 1 + t % 3) >= 1);
            }
        }
    }
    CHECK(regions == THREADS / 2 + 1);
    CHECK(found == THREADS / 2);
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* Whether kernels may read all of the heap: behind the last reset one region, which is it. */
static int all_is_told(const setup *x) {
    char line[300];
    uint64_t regions = 0, at = 0, bytes = 0;
    FILE *f = fopen(getenv("WH_NVTX_LOG"), "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        regions = strncmp(line, "reset", 5) == 0 ? 0 : regions;
        regions += sscanf(line, "region %" SCNu64 " %" SCNu64, &at, &bytes) == 2;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return regions == 1 && at == (uint64_t)(uintptr_t)x->memory && bytes == 32 * MIB;
}

static struct {
    const setup *of;
    const whi_alloc_ops *ops;
    whi_alloc_ops with;
    unsigned n;
} looks;

static wh_status look(const wh_launch *l, const void *handle, const wh_snapshot_window *w) {
    CHECK(all_is_told(looks.of));
    looks.n++;
    return looks.ops->snapshot(l, handle, w);
}

/* From now on each kernel that looks for blocks checks that it may. */
static void watch_looks(const setup *x) {
    looks.of = x;
    looks.ops = x->heap->ops;
    looks.with = *looks.ops;
    looks.with.snapshot = look;
    x->heap->ops = &looks.with;
}

/* --- parts ------------------------------------------------------------------------------------ */

static void with_tool(uint64_t checked) {
    setup x = make(checked);
    const uint64_t at = (uint64_t)(uintptr_t)x.memory;
    CHECK(lines("pool") == 0 && lines("region") == 0); /* nobody has asked for it */
    watch_looks(&x);
    CHECK(wh_heap_register_blocks(x.heap) == WH_OK);
    CHECK(has("pool %" PRIu64 " %" PRIu64 "\n", at, 32 * MIB) == 1);
    compare(&x, (int)checked);
    CHECK(wh_heap_register_blocks(x.heap) == WH_OK); /* anew */
    compare(&x, (int)checked);
    CHECK(lines("pool") == 1);
    CHECK(looks.n >= 4);
    const int whole = has("region %" PRIu64 " %" PRIu64 "\n", at, 32 * MIB);
    CHECK(wh_heap_unregister_blocks(x.heap) == WH_OK);
    CHECK(has("region %" PRIu64 " %" PRIu64 "\n", at, 32 * MIB) == whole + 1);
    CHECK(wh_heap_register_blocks(x.heap) == WH_OK);
    drop(&x);
    CHECK(lines("unregister") == 0); /* the memory is still to be used */
    CHECK(has("region %" PRIu64 " %" PRIu64 "\n", at, 32 * MIB) == whole + 3);
}

static void ranges(int wanted) {
    setup x = make(1);
    wh_stats s;
    uint64_t mark, n = 0;
    uint32_t leaks = 0;
    CHECK(wh_heap_get_stats(x.heap, &s) == WH_OK);
    CHECK(wh_heap_check(x.heap, NULL) == WH_OK);
    CHECK(wh_heap_check_blocks(x.heap, 0, NULL) == WH_OK);
    CHECK(wh_heap_blocks_left(x.heap, 16, &n) == WH_OK);
    CHECK(wh_heap_mark(x.heap, &mark) == WH_OK);
    CHECK(wh_heap_leaks(x.heap, 0, NULL, sizeof(wh_leak), 0, &leaks) == WH_OK);
    CHECK(wh_heap_reset(x.heap) == WH_OK);
    CHECK(wh_heap_leaks(NULL, 0, NULL, sizeof(wh_leak), 0, &leaks) == WH_BAD_ARGUMENT);
    drop(&x);
    static const char *const names[] = {"create", "get_stats",   "check", "check_blocks",
                                        "mark",   "blocks_left", "reset", "destroy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK((has("push wh_heap_%s\n", names[i]) > 0) == wanted);
    }
    CHECK(has("push wh_heap_leaks\n") == (wanted ? 2 : 0));
    CHECK(lines("push") == lines("pop"));
    CHECK(has("domain warpheap\n") == 1);
}

/* The tool is not there. */
static void alone(void) {
    setup x = make(1);
    wh_heap_options o;
    wh_heap *other = NULL;
    CHECK(wh_heap_register_blocks(NULL) == WH_BAD_ARGUMENT);
    CHECK(wh_heap_unregister_blocks(NULL) == WH_BAD_ARGUMENT);
    CHECK(wh_heap_register_blocks(x.heap) == WH_OK);
    CHECK(wh_heap_unregister_blocks(x.heap) == WH_OK);
    memset(&o, 0, sizeof o);
    o.device = x.device;
    o.bytes = MIB;
    CHECK(wh_heap_create(&other, &o) == WH_OK);
    CHECK(wh_heap_register_blocks(other) == WH_UNSUPPORTED);
    CHECK(strstr(wh_last_error_text(), "wh_heap_options.memory") != NULL);
    CHECK(wh_heap_destroy(other) == WH_OK);
    o.allocator = "bump";
    if (wh_allocator_find("bump") != NULL) {
        CHECK(wh_heap_create(&other, &o) == WH_OK);
        CHECK(wh_heap_register_blocks(other) == WH_UNSUPPORTED);
        CHECK(wh_heap_destroy(other) == WH_OK);
    }
    drop(&x);
    CHECK(lines("") == -1);
}

static int run_part(const char *part) {
    if (strcmp(part, "plain") == 0) {
        with_tool(0);
    } else if (strcmp(part, "checked") == 0) {
        with_tool(1);
    } else if (strcmp(part, "ranges") == 0) {
        ranges(1);
    } else if (strcmp(part, "quiet") == 0) {
        ranges(0);
    } else {
        alone();
    }
    return failures != 0;
}

int main(int argc, char **argv) {
    static const char *const parts[] = {"plain", "checked", "ranges", "quiet", "alone"};
    const char *const injection = argc > 1 ? argv[1] : "";
    char log[64];
    int bad = 0;
    if (argc > 2) {
        return run_part(argv[2]);
    }
    (void)snprintf(log, sizeof log, "nvtx_%ld.log", (long)getpid());
    (void)setenv("WH_NVTX_LOG", log, 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int has_tool = strcmp(parts[i], "alone") != 0;
        (void)unlink(log);
        (void)(has_tool ? setenv("NVTX_INJECTION64_PATH", injection, 1)
                        : unsetenv("NVTX_INJECTION64_PATH"));
        const int wants = strcmp(parts[i], "ranges") == 0 || !has_tool;
        (void)(wants ? setenv("WH_NVTX", "1", 1) : unsetenv("WH_NVTX"));
        const pid_t child = fork();
        if (child == 0) {
            (void)execl("/proc/self/exe", argv[0], injection, parts[i], (char *)NULL);
            _exit(127);
        }
        int status = 1;
        (void)waitpid(child, &status, 0);
        if (status != 0) {
            printf("part %s: status %d\n", parts[i], status);
            bad = 1;
        }
    }
    (void)unlink(log);
    return bad;
}
