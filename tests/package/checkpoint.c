/* checkpoint.c: a program that saves a heap and loads it again; C and C++. */
#include <stdio.h>
#include <warpheap/checkpoint.h>
#include <warpheap/warpheap.h>

typedef struct note_args {
    wh_heap_ref heap;
    int **note;
} note_args;

/* A kernel of the user's. */
WH_KERNEL(write_note, note_args, a) {
    if (wh_thread_id() == 0) {
        *a.note = (int *)wh_malloc(a.heap, sizeof(int));
        if (*a.note != NULL) {
            **a.note = 42;
        }
    }
}

static int must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s: %s\n", wh_status_name(status), wh_last_error_text());
    }
    return status == WH_OK;
}

int main(int argc, char **argv) {
    char path[400];
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    wh_heap_options o = {0};
    note_args a = {0};
    void *memory = NULL;
    int *note = NULL, text = 0;
    int64_t moved = 0;
    (void)argc;
    snprintf(path, sizeof path, "%s.heap", argv[0]);
    int is_right = must(wh_device_open(&device, "sim", NULL));
    o.device = device;
    o.bytes = 1 << 20;
    is_right = is_right && must(wh_heap_create(&heap, &o)) && must(wh_heap_handle(heap, &a.heap)) &&
               must(wh_device_alloc(device, &memory, sizeof *a.note));
    a.note = (int **)memory;
    const wh_launch one = wh_grid(device, 1, 32);
    is_right = is_right && must(write_note(&one, &a)) &&
               must(wh_device_copy_out(device, &note, memory, sizeof note)) &&
               must(wh_heap_save(heap, path));
    wh_heap_destroy(heap);
    heap = NULL;
    is_right = is_right && must(wh_heap_load(&heap, path, &o, &moved)) &&
               must(wh_heap_check(heap, NULL)) &&
               must(wh_device_copy_out(device, &text, wh_heap_rebase(note, moved), sizeof text)) &&
               text == 42;
    wh_heap_destroy(heap);
    is_right = wh_heap_load(&heap, "no such file", &o, &moved) == WH_IO_ERROR && is_right;
    printf("%s\n", is_right ? "right" : "wrong");
    remove(path);
    if (device != NULL) {
        (void)wh_device_free(device, memory);
    }
    wh_device_close(device);
    return is_right ? 0 : 1;
}
