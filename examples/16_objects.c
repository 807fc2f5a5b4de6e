/* 16_objects.c: bodies that attract each other, and become one where they meet. A body is an object
 * whose fields lie apart, each with those of other bodies (dynasoar.h); kernels walk over all that
 * there are. The same file builds for the GPU (nvcc -x cu) and for the simulated device (any C11
 * compiler). */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define WH_ALLOCATOR dynasoar
#include <warpheap/dynasoar.h>
#include <warpheap/warpheap.h>

#define BODIES 96u
#define STEPS 12u
#define NEAR 0.02f

#define BODY(X)             \
    X(body, uint64_t, into) \
    X(body, float, x)       \
    X(body, float, y)       \
    X(body, float, speed_x) \
    X(body, float, speed_y) \
    X(body, float, mass)    \
    X(body, uint32_t, goes)
WH_DYNASOAR_TYPE(body, 1, BODY)

typedef struct args {
    wh_heap_ref heap;
    uint32_t *counts; /* bodies in the end, their mass, bodies for which there was no room */
} args;

/* All threads together visit each body once: those of a warp bodies beside each other. */
WH_FN wh_dynasoar_each our_bodies(wh_heap_ref heap) {
    return wh_dynasoar_each_of(heap, body_kind(heap), wh_thread_id(), wh_grid_threads());
}

/* The calling thread visits all bodies. */
WH_FN wh_dynasoar_each all_bodies(wh_heap_ref heap) {
    return wh_dynasoar_each_of(heap, body_kind(heap), 0, 1);
}

WH_FN float distance2(wh_heap_ref heap, const body *a, const body *b) {
    const float dx = *body_x(heap, b) - *body_x(heap, a), dy = *body_y(heap, b) - *body_y(heap, a);
    return dx * dx + dy * dy;
}

WH_KERNEL(make, args, a) {
    uint32_t random = ((uint32_t)wh_thread_id() + 1) * 1103515245u;
    body *b = body_new(a.heap, wh_activemask());
    if (b == NULL) {
        wh_add_u32_relaxed(&a.counts[2], 1);
        return;
    }
    random ^= random >> 15;
    *body_x(a.heap, b) = (float)(random & 0xffff) / 65536;
    *body_y(a.heap, b) = (float)(random >> 16) / 65536;
    *body_speed_x(a.heap, b) = 0;
    *body_speed_y(a.heap, b) = 0;
    *body_mass(a.heap, b) = 1;
    *body_into(a.heap, b) = 0;
}

/* How fast a body is after what pulls at it; and which one it goes into, if one is near: the
 * heavier, or of two that are alike the one with the lower address. */
WH_KERNEL(pull, args, a) {
    wh_dynasoar_each e = our_bodies(a.heap);
    while (wh_dynasoar_each_step(a.heap, &e)) {
        const body *b = (const body *)e.object;
        if (b == NULL) {
            continue;
        }
        float pull_x = 0, pull_y = 0, nearest = NEAR * NEAR;
        const body *into = NULL;
        wh_dynasoar_each f = all_bodies(a.heap);
        while (wh_dynasoar_each_step(a.heap, &f)) {
            const body *other = (const body *)f.object;
            if (other == NULL || other == b) {
                continue;
            }
            const float d2 = distance2(a.heap, b, other);
            const float more = *body_mass(a.heap, other) - *body_mass(a.heap, b);
            const float g = *body_mass(a.heap, other) / (d2 + 0.01f);
            pull_x += g * (*body_x(a.heap, other) - *body_x(a.heap, b));
            pull_y += g * (*body_y(a.heap, other) - *body_y(a.heap, b));
            if (d2 < nearest && (more > 0 || (more >= 0 && other < b))) {
                nearest = d2;
                into = other;
            }
        }
        *body_speed_x(a.heap, b) += pull_x * 1e-4f;
        *body_speed_y(a.heap, b) += pull_y * 1e-4f;
        *body_into(a.heap, b) = (uint64_t)(uintptr_t)into;
    }
}

/* Whether a body goes into another one now: that one must not itself be going. */
WH_FN const body *goes_into(wh_heap_ref heap, const body *b) {
    const body *into = (const body *)(uintptr_t)*body_into(heap, b);
    return into != NULL && *body_into(heap, into) == 0 ? into : NULL;
}

/* Each body notes whether it goes; one that stays takes over the mass of those that go into it. */
WH_KERNEL(take_over, args, a) {
    wh_dynasoar_each e = our_bodies(a.heap);
    while (wh_dynasoar_each_step(a.heap, &e)) {
        body *b = (body *)e.object;
        if (b == NULL) {
            continue;
        }
        *body_goes(a.heap, b) = goes_into(a.heap, b) != NULL;
        if (*body_into(a.heap, b) != 0) {
            continue;
        }
        wh_dynasoar_each f = all_bodies(a.heap);
        while (wh_dynasoar_each_step(a.heap, &f)) {
            const body *other = (const body *)f.object;
            if (other != NULL && goes_into(a.heap, other) == b) {
                *body_mass(a.heap, b) += *body_mass(a.heap, other);
            }
        }
    }
}

/* Notes which bodies there are: the walk of the next kernel frees some of them. */
WH_KERNEL(note, args, a) {
    wh_dynasoar_mark(a.heap, body_kind(a.heap), wh_thread_id(), wh_grid_threads());
}

/* Bodies that have gone into another one are freed; the others move. */
WH_KERNEL(move, args, a) {
    wh_dynasoar_each e =
        wh_dynasoar_each_marked(a.heap, body_kind(a.heap), wh_thread_id(), wh_grid_threads());
    while (wh_dynasoar_each_step(a.heap, &e)) {
        body *b = (body *)e.object;
        if (b != NULL && *body_goes(a.heap, b)) {
            wh_free(a.heap, b);
        } else if (b != NULL) {
            *body_x(a.heap, b) += *body_speed_x(a.heap, b);
            *body_y(a.heap, b) += *body_speed_y(a.heap, b);
        }
    }
}

WH_KERNEL(count, args, a) {
    wh_dynasoar_each e = our_bodies(a.heap);
    while (wh_dynasoar_each_step(a.heap, &e)) {
        if (e.object != NULL) {
            const body *b = (const body *)e.object;
            wh_add_u32_relaxed(&a.counts[0], 1);
            wh_add_u32_relaxed(&a.counts[1], (uint32_t)*body_mass(a.heap, b));
        }
    }
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_status_text(status));
        exit(1);
    }
}

int main(void) {
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *counts = NULL;
    uint32_t found[3];
    args a;
    wh_heap_options options = {0};
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    options.bytes = 1 << 20;
    options.device = device;
    options.allocator = "dynasoar";
    must(wh_heap_create(&heap, &options));
    must(wh_heap_handle(heap, &a.heap));
    must(wh_device_alloc(device, &counts, sizeof found));
    must(wh_device_set(device, counts, 0, sizeof found));
    a.counts = (uint32_t *)counts;
    const wh_launch launch = wh_grid(device, BODIES / 32, 32);
    must(make(&launch, &a));
    for (uint32_t step = 0; step < STEPS; step++) {
        must(pull(&launch, &a));
        must(take_over(&launch, &a));
        must(note(&launch, &a));
        must(move(&launch, &a));
    }
    must(count(&launch, &a));
    must(wh_device_copy_out(device, found, counts, sizeof found));
    must(wh_heap_check(heap, NULL));
    must(wh_device_free(device, counts));
    wh_heap_destroy(heap);
    wh_device_close(device);
    printf("%u bodies became %u, of mass %u\n", BODIES, (unsigned)found[0], (unsigned)found[1]);
    return found[1] == BODIES && found[0] < BODIES && found[2] == 0 ? 0 : 1;
}
