/* save.c: wh_heap_save. The file is written under another name, and renamed at last. */
#include "warpheap/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "file.h"
#include "host/beside.h"
#include "host/last_error.h"
#include "host/nvtx_internal.h"
#include "host/try.h"

typedef struct writer {
    const char *path;
    wh_device *device;
    char *name; /* of the file until it is complete */
    int fd;
    int deflating;
    uLong crc;
    uint64_t bytes;
    z_stream z;
    unsigned char *out, *piece; /* PIECE bytes each */
} writer;

static wh_status failed(const writer *w, const char *what) {
    return whi_refuse(WH_IO_ERROR, "%.200s: cannot %s: %s", w->path, what, strerror(errno));
}

static wh_status put(writer *w, const void *from, size_t bytes) {
    const unsigned char *p = from;
    w->crc = crc32(w->crc, p, (uInt)bytes);
    w->bytes += bytes;
    while (bytes != 0) {
        const ssize_t n = write(w->fd, p, bytes);
        if (n < 0 && errno != EINTR) {
            return failed(w, "write");
        }
        p += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return WH_OK;
}

/* Compresses bytes of the host; the end of the stream with Z_FINISH. */
static wh_status squeeze(writer *w, const void *from, size_t bytes, int flush) {
    w->z.next_in = (unsigned char *)(uintptr_t)from; /* zlib does not write to it */
    w->z.avail_in = (uInt)bytes;
    do {
        w->z.next_out = w->out;
        w->z.avail_out = WHI_CHECKPOINT_PIECE;
        (void)deflate(&w->z, flush);
        TRY(put(w, w->out, WHI_CHECKPOINT_PIECE - w->z.avail_out));
    } while (w->z.avail_out == 0);
    return WH_OK;
}

/* Bit maps can be larger than what zlib counts. */
static wh_status squeeze_words(writer *w, const uint64_t *words, uint64_t n) {
    const uint64_t most = WHI_CHECKPOINT_PIECE / 8;
    for (uint64_t k = 0; k < n; k += most) {
        TRY(squeeze(w, words + k, (size_t)(n - k < most ? n - k : most) * 8, Z_NO_FLUSH));
    }
    return WH_OK;
}

static wh_status squeeze_device(void *context, void *at, uint64_t bytes) {
    writer *w = context;
    for (uint64_t k = 0; k < bytes; k += WHI_CHECKPOINT_PIECE) {
        const uint64_t rest = bytes - k;
        const size_t n = rest < WHI_CHECKPOINT_PIECE ? (size_t)rest : WHI_CHECKPOINT_PIECE;
        TRY(wh_device_copy_out(w->device, w->piece, (unsigned char *)at + k, n));
        TRY(squeeze(w, w->piece, n, Z_NO_FLUSH));
    }
    return WH_OK;
}

static wh_status put_head(writer *w, const whi_image *im) {
    whi_file_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, WHI_CHECKPOINT_MAGIC, sizeof head.magic);
    head.version = WHI_CHECKPOINT_VERSION;
    head.head_bytes = sizeof head;
    (void)snprintf(head.allocator, sizeof head.allocator, "%s", im->info->name);
    head.facts = im->facts;
    head.crc = crc32(0, (const unsigned char *)&head, offsetof(whi_file_head, crc));
    return put(w, &head, sizeof head);
}

static wh_status put_tail(writer *w) {
    whi_file_tail tail;
    tail.file_bytes = w->bytes + sizeof tail;
    TRY(put(w, &tail.file_bytes, sizeof tail.file_bytes));
    tail.crc = w->crc;
    return put(w, &tail.crc, sizeof tail.crc);
}

static wh_status put_all(writer *w, const whi_image *im, const wh_heap *heap) {
    w->out = malloc(WHI_CHECKPOINT_PIECE);
    w->piece = malloc(WHI_CHECKPOINT_PIECE);
    w->deflating = w->out != NULL && w->piece != NULL && deflateInit(&w->z, Z_BEST_SPEED) == Z_OK;
    if (!w->deflating) {
        return WH_OUT_OF_MEMORY;
    }
    TRY(put_head(w, im));
    TRY(squeeze_words(w, im->units, im->n_units));
    TRY(squeeze_words(w, im->live, im->n_live));
    TRY(whi_image_each(im, heap, squeeze_device, w));
    TRY(squeeze(w, NULL, 0, Z_FINISH));
    return put_tail(w);
}

/* The file's new name is on the disk, too, where the system can do that. */
static void sync_folder(writer *w) {
    char *slash = strrchr(w->name, '/');
    if (slash != NULL) {
        slash[slash == w->name] = '\0';
    }
    const int fd = open(slash != NULL ? w->name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

static wh_status finish(writer *w) {
    if (fsync(w->fd) != 0) {
        return failed(w, "bring to the disk");
    }
    const int closed = close(w->fd);
    w->fd = -1;
    if (closed != 0) {
        return failed(w, "close");
    }
    if (rename(w->name, w->path) != 0) {
        return failed(w, "rename to");
    }
    return WH_OK;
}

wh_status wh_heap_save(wh_heap *heap, const char *path) {
    WHI_RANGE("wh_heap_save");
    whi_forget_error();
    if (heap == NULL || path == NULL || path[0] == '\0') {
        return WH_BAD_ARGUMENT;
    }
    writer w;
    whi_image image;
    memset(&w, 0, sizeof w);
    w.path = path;
    w.device = wh_heap_device(heap);
    w.fd = -1;
    wh_status s = whi_image_take(&image, heap);
    s = s == WH_OK ? whi_open_beside(w.path, &w.name, &w.fd) : s;
    const int is_open = w.fd >= 0;
    s = s == WH_OK ? put_all(&w, &image, heap) : s;
    s = s == WH_OK ? finish(&w) : s;
    if (s == WH_OK) {
        sync_folder(&w);
    } else if (is_open) {
        (void)unlink(w.name);
    }
    if (w.fd >= 0) {
        (void)close(w.fd);
    }
    if (w.deflating) {
        (void)deflateEnd(&w.z);
    }
    whi_image_drop(&image);
    free(w.out);
    free(w.piece);
    free(w.name);
    return s;
}
