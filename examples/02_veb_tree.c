/* 02_veb_tree.c: core/veb.h on its own: 256 lanes share out a set of 1000 numbers, each
 * lane takes the smallest that is left until none is. */
#include <stdio.h>
#include <stdlib.h>
#include <warpheap/core/veb.h>
#include <warpheap/device.h>

typedef struct {
    wh_veb set;
    uint32_t *owner;
} args;

WH_KERNEL(share_out, args, a) {
    for (;;) {
        const uint64_t x = wh_veb_successor(a.set, 0);
        if (x == WH_VEB_NONE) {
            return;
        }
        if (wh_veb_remove(a.set, x)) { /* exactly one lane gets it */
            wh_add_u32_relaxed(&a.owner[x], 1);
        }
    }
}

int main(void) {
    enum { N = 1000 };
    wh_device *device = NULL;
    void *words = NULL, *owner = NULL;
    const uint64_t n_words = wh_veb_words(N);
    uint64_t *initial = (uint64_t *)calloc(n_words, sizeof *initial);
    uint32_t host[N];
    wh_status s = wh_device_open(&device, WH_TARGET_NAME, NULL);
    for (uint64_t i = 0; i < n_words; i++) {
        initial[i] = wh_veb_initial_word(N, i, 1);
    }
    if (s == WH_OK) {
        s = wh_device_alloc(device, &words, n_words * sizeof(uint64_t));
    }
    if (s == WH_OK) {
        s = wh_device_alloc(device, &owner, sizeof host);
    }
    if (s == WH_OK) {
        s = wh_device_set(device, owner, 0, sizeof host);
    }
    if (s == WH_OK) {
        s = wh_device_copy_in(device, words, initial, n_words * sizeof(uint64_t));
    }
    if (s == WH_OK) {
        const wh_launch launch = {device, 2, 128, NULL};
        args a;
        a.set = wh_veb_make((uint64_t *)words, N);
        a.owner = (uint32_t *)owner;
        s = share_out(&launch, &a);
    }
    if (s == WH_OK) {
        s = wh_device_copy_out(device, host, owner, sizeof host);
    }
    int wrong = s != WH_OK;
    for (int i = 0; i < N && s == WH_OK; i++) {
        wrong += host[i] != 1;
    }
    printf("%s: %d of %d numbers not taken exactly once\n", wh_status_name(s), wrong, (int)N);
    free(initial);
    if (device != NULL) {
        (void)wh_device_free(device, words);
        (void)wh_device_free(device, owner);
    }
    wh_device_close(device);
    return wrong != 0;
}
