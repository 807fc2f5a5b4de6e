/* snapshot_file.c: wh_heap_snapshot_save: a heap as JSON, a row a line, written as it is read:
 * nothing of it is kept but the places. docs/LEAKS.md has the form; cli/snapshot_read.c reads it.
 *
 * The core library links no JSON library: what is written here is numbers, and names by put_text.
 */
#include "warpheap/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "beside.h"
#include "last_error.h"
#include "nvtx_internal.h"
#include "scan.h"
#include "try.h"

typedef struct writer {
    FILE *file;
    const char *path;
    char *name; /* the file until it is renamed */
    whi_scan scan;
    whi_pairs sites;
    int is_checked;
    uint64_t pieces, blocks;
} writer;

static wh_status failed(const writer *w, const char *what) {
    return whi_refuse(WH_IO_ERROR, "%s: cannot %s: %s", w->path, what, strerror(errno));
}

/* Errors of the file are looked for at the end. */
static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vfprintf(w->file, format, args);
    va_end(args);
}

/* Bytes of the letter of UTF-8 that begins here; 0: none does. */
static size_t letter(const char *text) {
    const unsigned char *t = (const unsigned char *)text;
    const size_t n = 2 + (size_t)(t[0] >= 0xe0) + (size_t)(t[0] >= 0xf0);
    uint32_t code = t[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (t[i] & 0x3f);
    }
    const uint32_t least = (uint32_t)0x80 << (n > 2 ? 5 * n - 11 : 0); /* in so many bytes */
    const int is_letter = code >= least && code <= 0x10ffff && code - 0xd800 >= 0x800;
    return t[0] >= 0xc2 && t[0] <= 0xf4 && is_letter ? n : 0;
}

/* A string. A name that was cut may begin inside a letter. */
static void put_text(writer *w, const char *text) {
    (void)putc('"', w->file);
    while (*text != '\0') {
        const unsigned char c = (unsigned char)*text;
        const size_t n = c < 0x80 ? 1 : letter(text);
        if (c < ' ' || c == 0x7f || n == 0) {
            put(w, "\\u%04x", c < 0x80 ? (unsigned)c : 0xfffdu);
        } else {
            put(w, c == '"' || c == '\\' ? "\\%.*s" : "%.*s", (int)n, text);
        }
        text += n != 0 ? n : 1;
    }
    (void)putc('"', w->file);
}

static void put_known(writer *w, uint64_t number) {
    if (number == WH_UNKNOWN) {
        put(w, ",null");
    } else {
        put(w, ",%" PRIu64, number);
    }
}

/* --- parts of the file ------------------------------------------------------------------------ */

static wh_status put_head(writer *w, const wh_stats *s) {
    const wh_heap *h = w->scan.heap;
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    put(w, "{\"snapshot\":{\"format\":\"warpheap snapshot\",\"version\":1,\n\"allocator\":");
    put_text(w, h->info->name);
    put(w, ",\"device\":");
    put_text(w, wh_device_get_info(h->device)->name);
    put(w, ",\n\"pid\":%ld,\"created_ns\":%" PRIu64 ",\"time_ns\":%" PRIu64, (long)getpid(),
        h->created_ns, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
    put(w, ",\n\"base\":%" PRIu64 ",\"chunk_bytes\":%" PRIu64 ",\"chunks\":%" PRIu64,
        w->scan.shape.base, w->scan.shape.chunk_bytes, w->scan.shape.n_chunks);
    put(w, ",\n\"heap_bytes\":%" PRIu64 ",\"metadata_bytes\":%" PRIu64, s->heap_bytes,
        s->metadata_bytes);
    put(w, ",\n\"used_bytes\":%" PRIu64 ",\"live_blocks\":%" PRIu64 ",\"largest_free\":%" PRIu64,
        s->used_bytes, s->live_blocks, s->largest_free);
    put(w, ",\n\"failed\":%" PRIu64 ",\"bad_frees\":%" PRIu64, s->failed, s->bad_frees);
    if (w->is_checked) {
        put(w,
            ",\n\"checked\":true,\"mark\":%" PRIu64
            ",\"columns\":[\"offset\",\"taken\",\"bytes\",\"site\",\"block\",\"thread\","
            "\"mark\"]},\n",
            h->mark);
    } else {
        put(w, ",\n\"checked\":false,\"columns\":[\"offset\",\"taken\"],\n\"note\":\"blocks of a "
               "heap that is not checked do not say who allocated them: tessera.checked\"},\n");
    }
    return WH_OK;
}

static wh_status put_piece(void *context, uint64_t chunk, const wh_snapshot_piece *p) {
    static const char *const kinds[] = {"other", "free", "absent", "slab", "large"};
    writer *w = context;
    put(w, "%s[%" PRIu64 ",%" PRIu32 ",\"%s\"", w->pieces != 0 ? ",\n" : "", chunk, p->chunks,
        kinds[p->kind]);
    if (p->kind == WH_PIECE_SLAB) {
        put(w, ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32, p->slot_bytes, p->slots,
            p->live, p->kept, p->ready);
    } else if (p->kind == WH_PIECE_LARGE) {
        put(w, ",%" PRIu32 ",%" PRIu32, p->live, p->kept);
    }
    put(w, "]");
    w->pieces++;
    return ferror(w->file) != 0 ? failed(w, "write to it") : WH_OK;
}

static wh_status put_block(void *context, const wh_snapshot_block *b) {
    writer *w = context;
    put(w, "%s[%" PRIu64 ",%" PRIu64, w->blocks != 0 ? ",\n" : "", b->address - w->scan.shape.base,
        b->taken);
    if (w->is_checked) {
        uint64_t site = 0;
        TRY(whi_pairs_find(&w->sites, b->site, 0, &site));
        put(w, ",%" PRIu64 ",%" PRIu64, b->bytes, site);
        put_known(w, b->block);
        put_known(w, b->thread);
        put_known(w, b->mark);
    }
    put(w, "]");
    w->blocks++;
    return ferror(w->file) != 0 ? failed(w, "write to it") : WH_OK;
}

static wh_status put_sites(writer *w) {
    const uint64_t n = w->sites.n;
    uint64_t *sites = malloc((size_t)n * sizeof *sites + 1);
    wh_record_site *texts = malloc((size_t)n * sizeof *texts + 1);
    wh_status s = sites != NULL && texts != NULL ? WH_OK : WH_OUT_OF_MEMORY;
    for (uint64_t i = 0; s == WH_OK && i < n; i++) {
        sites[i] = w->sites.pairs[i].site;
    }
    s = s == WH_OK && n != 0 ? whi_scan_sites(&w->scan, sites, texts, n) : s;
    for (uint64_t i = 0; s == WH_OK && i < n; i++) {
        put(w, i != 0 ? ",\n[" : "[");
        put_text(w, texts[i].file);
        put(w, ",%" PRIu32 "]", texts[i].line);
    }
    free(sites);
    free(texts);
    return s;
}

static wh_status put_all(writer *w) {
    wh_stats stats;
    TRY(wh_heap_get_stats_sized(w->scan.heap, &stats, sizeof stats, NULL, 0));
    if (w->is_checked) {
        TRY(whi_heap_next_mark(w->scan.heap));
    }
    TRY(put_head(w, &stats));
    put(w, "\"pieces\":[\n");
    TRY(whi_scan_pieces(&w->scan, put_piece, w));
    put(w, "],\n\"blocks\":[\n");
    TRY(whi_scan_blocks(&w->scan, put_block, w));
    put(w, "],\n\"sites\":[\n");
    TRY(put_sites(w));
    put(w, "],\n\"end\":{\"pieces\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"sites\":%" PRIu64 "}}\n",
        w->pieces, w->blocks, w->sites.n);
    return WH_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static wh_status open_file(writer *w) {
    int fd = -1;
    TRY(whi_open_beside(w->path, &w->name, &fd));
    w->file = fdopen(fd, "wb");
    if (w->file == NULL) {
        const wh_status s = failed(w, "open it");
        (void)close(fd);
        (void)unlink(w->name);
        return s;
    }
    return WH_OK;
}

static wh_status close_file(writer *w, wh_status s) {
    if (w->file != NULL) {
        const int bad = ferror(w->file);
        const int closed = fclose(w->file);
        s = s == WH_OK && (bad != 0 || closed != 0) ? failed(w, "write to it") : s;
        s = s == WH_OK && rename(w->name, w->path) != 0 ? failed(w, "rename to it") : s;
        if (s != WH_OK) {
            (void)unlink(w->name);
        }
    }
    free(w->name);
    return s;
}

wh_status wh_heap_snapshot_save(wh_heap *heap, const char *path) {
    WHI_RANGE("wh_heap_snapshot_save");
    whi_forget_error();
    if (heap == NULL || path == NULL || path[0] == '\0') {
        return WH_BAD_ARGUMENT;
    }
    writer w;
    memset(&w, 0, sizeof w);
    w.path = path;
    w.is_checked = heap->watch.checked != 0;
    TRY(whi_scan_open(&w.scan, heap));
    wh_status s = open_file(&w);
    s = s == WH_OK ? put_all(&w) : s;
    whi_scan_close(&w.scan);
    whi_pairs_drop(&w.sites);
    return close_file(&w, s);
}
