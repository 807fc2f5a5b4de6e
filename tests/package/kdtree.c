/* kdtree.c: a program that builds a k-d tree over a cube and follows two rays; C and C++. */
#include <stdio.h>
#include <warpheap/kdtree_device.h>

#define CORNERS 8u
#define TRIANGLES 12u

/* A kernel of the user's. */
typedef struct look_args {
    wh_kdtree_ref tree;
    const wh_kdtree_ray *rays;
    wh_kdtree_hit *hits;
} look_args;

WH_KERNEL(look, look_args, a) {
    const uint64_t i = wh_thread_id();
    a.hits[i] = wh_kdtree_closest(a.tree, a.rays[i]);
}

static int must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s: %s\n", wh_status_name(status), wh_last_error_text());
    }
    return status == WH_OK;
}

int main(void) {
    static const uint32_t corners[TRIANGLES][3] = {{0, 1, 3}, {0, 3, 2}, {4, 5, 7}, {4, 7, 6},
                                                   {0, 1, 5}, {0, 5, 4}, {2, 3, 7}, {2, 7, 6},
                                                   {0, 2, 6}, {0, 6, 4}, {1, 3, 7}, {1, 7, 5}};
    static const wh_kdtree_ray rays[2] = {{{-1, 0.25f, 0.5f}, 0, {1, 0, 0}, 10},
                                          {{-1, 2, 0.5f}, 0, {1, 0, 0}, 10}};
    wh_kdtree_hit hits[2];
    float xyz[CORNERS][3];
    void *memory[4] = {NULL};
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_kdtree *tree = NULL;
    wh_heap_options ho = {0};
    wh_kdtree_options o = {0};
    wh_kdtree_mesh mesh = {0};
    look_args look_at = {0};
    wh_kdtree_result result;
    for (uint32_t i = 0; i < CORNERS; i++) {
        xyz[i][0] = (float)(i & 1), xyz[i][1] = (float)(i >> 1 & 1), xyz[i][2] = (float)(i >> 2);
    }
    int is_right = must(wh_device_open(&device, "sim", NULL));
    ho.device = device;
    is_right = is_right && must(wh_heap_min_bytes(&ho, &ho.bytes));
    ho.bytes += 1 << 20;
    is_right = is_right && must(wh_heap_create(&heap, &ho)) &&
               must(wh_device_alloc(device, &memory[0], sizeof xyz)) &&
               must(wh_device_alloc(device, &memory[1], sizeof corners)) &&
               must(wh_device_alloc(device, &memory[2], sizeof rays)) &&
               must(wh_device_alloc(device, &memory[3], sizeof hits)) &&
               must(wh_device_copy_in(device, memory[0], xyz, sizeof xyz)) &&
               must(wh_device_copy_in(device, memory[1], corners, sizeof corners)) &&
               must(wh_device_copy_in(device, memory[2], rays, sizeof rays));
    o.heap = heap;
    o.most_triangles = TRIANGLES;
    mesh.vertices = (const float *)memory[0], mesh.n_vertices = CORNERS;
    mesh.triangles = (const uint32_t *)memory[1], mesh.n_triangles = TRIANGLES;
    look_at.rays = (const wh_kdtree_ray *)memory[2], look_at.hits = (wh_kdtree_hit *)memory[3];
    is_right = is_right && must(wh_kdtree_create(&tree, &o)) &&
               must(wh_kdtree_build(tree, &mesh, NULL)) &&
               must(wh_kdtree_handle(tree, &look_at.tree));
    const wh_launch two = wh_grid(device, 1, 2);
    is_right = is_right && must(look(&two, &look_at)) && must(wh_kdtree_finish(tree, &result)) &&
               must(wh_kdtree_check(tree, NULL)) &&
               must(wh_device_copy_out(device, hits, memory[3], sizeof hits)) && hits[0].t == 1 &&
               hits[1].triangle == WH_KDTREE_NONE;
    printf("%s\n", is_right ? "right" : "wrong");
    wh_kdtree_destroy(tree);
    wh_heap_destroy(heap);
    for (uint32_t i = 0; i < 4 && device != NULL; i++) {
        (void)wh_device_free(device, memory[i]);
    }
    wh_device_close(device);
    return is_right ? 0 : 1;
}
