/* 09_arena.c: scratch memory for one item after the other. Each thread has some lines of a text,
 * and counts the different words of each: with a list of nodes from an arena, which is rewound for
 * the next line. The same file builds for the GPU (nvcc -x cu) and for the simulated device (any
 * C11 compiler). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpheap/arena.h>

#define LINES 256u
#define LINE_BYTES 120u
#define THREADS 32u

typedef struct word {
    const char *text;
    uint32_t length;
    struct word *next;
} word;

typedef struct args {
    wh_heap_ref heap;
    const char *lines; /* LINE_BYTES each, the rest spaces */
    uint32_t *counts;  /* different words of each; UINT32_MAX: there was no memory */
} args;

WH_FN int is_same(const word *w, const char *text, uint32_t length) {
    uint32_t i = 0;
    while (w->length == length && i < length && w->text[i] == text[i]) {
        i++;
    }
    return w->length == length && i == length;
}

/* The number of words in the list, after those of a line have been put in that are not there yet.
 */
WH_FN uint32_t count_words(wh_heap_ref heap, wh_arena *arena, const char *line) {
    word *list = NULL;
    uint32_t n = 0;
    for (uint32_t at = 0, length; at < LINE_BYTES; at += length + 1) {
        for (length = 0; at + length < LINE_BYTES && line[at + length] != ' '; length++) {
        }
        word *w = list;
        while (w != NULL && !is_same(w, line + at, length)) {
            w = w->next;
        }
        if (length != 0 && w == NULL) {
            w = (word *)wh_arena_malloc(heap, arena, sizeof *w);
            if (w == NULL) { /* the heap is full */
                return UINT32_MAX;
            }
            w->text = line + at;
            w->length = length;
            w->next = list;
            list = w;
            n++;
        }
    }
    return n;
}

WH_KERNEL(count_lines, args, a) {
    wh_arena arena = wh_arena_open(0, 0);
    const wh_arena_place start = wh_arena_mark(&arena);
    for (uint64_t i = wh_thread_id(); i < LINES; i += wh_grid_threads()) {
        a.counts[i] = count_words(a.heap, &arena, a.lines + i * LINE_BYTES);
        wh_arena_rewind(a.heap, &arena, start); /* the list is gone, its memory is at hand */
    }
    wh_arena_close(a.heap, &arena);
}

static void must(wh_status status) {
    if (status != WH_OK) {
        fprintf(stderr, "%s\n", wh_status_text(status));
        exit(1);
    }
}

/* Line i has i % 20 + 1 words, of which i % 7 + 1 differ, or all. */
static void write_line(char *line, uint32_t i) {
    memset(line, ' ', LINE_BYTES);
    for (uint32_t k = 0; k <= i % 20; k++) {
        char text[8];
        const int n = snprintf(text, sizeof text, "w%u", (unsigned)(k % (i % 7 + 1)));
        memcpy(line + (size_t)k * 4, text, (size_t)n);
    }
}

int main(void) {
    static char lines[LINES * LINE_BYTES];
    static uint32_t counts[LINES];
    wh_device *device = NULL;
    wh_heap *heap = NULL;
    void *text = NULL, *numbers = NULL;
    args a;
    wh_stats stats;
    wh_heap_options options = {0};
    uint32_t right = 0;
    must(wh_device_open(&device, WH_TARGET_NAME, NULL));
    options.bytes = 64 << 20;
    options.device = device;
    must(wh_heap_create(&heap, &options));
    must(wh_heap_handle(heap, &a.heap));
    for (uint32_t i = 0; i < LINES; i++) {
        write_line(lines + (size_t)i * LINE_BYTES, i);
    }
    must(wh_device_alloc(device, &text, sizeof lines));
    must(wh_device_copy_in(device, text, lines, sizeof lines));
    must(wh_device_alloc(device, &numbers, sizeof counts));
    a.lines = (const char *)text;
    a.counts = (uint32_t *)numbers;
    const wh_launch launch = wh_grid(device, 1, THREADS);
    must(count_lines(&launch, &a));
    must(wh_device_copy_out(device, counts, numbers, sizeof counts));
    for (uint32_t i = 0; i < LINES; i++) {
        const uint32_t words = i % 20 + 1, kinds = i % 7 + 1;
        right += counts[i] == (words < kinds ? words : kinds);
    }
    must(wh_heap_get_stats(heap, &stats));
    printf("%u of %u lines are right, %u blocks of the heap in use\n", (unsigned)right, LINES,
           (unsigned)stats.live_blocks);
    must(wh_device_free(device, text));
    must(wh_device_free(device, numbers));
    wh_heap_destroy(heap);
    wh_device_close(device);
    return right == LINES && stats.live_blocks == 0 ? 0 : 1;
}
