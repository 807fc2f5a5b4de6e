/* load.c: wh_heap_load. The file is compared with its checksum before anything is made of it. */
#include "warpheap/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "file.h"
#include "host/last_error.h"
#include "host/nvtx_internal.h"
#include "host/try.h"

typedef struct reader {
    const char *path;
    wh_device *device;
    int fd;
    int inflating;
    uint64_t left; /* bytes of the stream that have not been read */
    z_stream z;
    unsigned char *in, *piece; /* PIECE bytes each */
} reader;

static wh_status bad(const reader *r, const char *why) {
    return whi_refuse(WH_BAD_FORMAT, "%.200s: %s", r->path, why);
}

/* What another part of the library has said, behind the name of the file. */
static wh_status with_name(const reader *r, wh_status s) {
    char text[400];
    (void)snprintf(text, sizeof text, "%s", wh_last_error_text());
    if (s == WH_OK || s == WH_DEVICE_ERROR || strncmp(text, r->path, strlen(r->path)) == 0) {
        return s;
    }
    return whi_refuse(s, "%.200s: %s", r->path, text[0] != '\0' ? text : wh_status_text(s));
}

/* At most `bytes` bytes; fewer at the end of the file: *got. */
static wh_status get(reader *r, void *to, size_t bytes, size_t *got) {
    for (*got = 0; *got < bytes;) {
        const ssize_t n = read(r->fd, (unsigned char *)to + *got, bytes - *got);
        if (n < 0 && errno != EINTR) {
            return whi_refuse(WH_IO_ERROR, "%.200s: cannot read: %s", r->path, strerror(errno));
        }
        if (n == 0) {
            break;
        }
        *got += n > 0 ? (size_t)n : 0;
    }
    return WH_OK;
}

static wh_status get_head(reader *r, whi_file_head *head) {
    size_t got;
    TRY(get(r, head, sizeof *head, &got));
    if (got < sizeof head->magic ||
        memcmp(head->magic, WHI_CHECKPOINT_MAGIC, sizeof head->magic) != 0) {
        return bad(r, "this is no heap that wh_heap_save wrote");
    }
    if (got < offsetof(whi_file_head, head_bytes)) {
        return bad(r, "the file is cut short");
    }
    if (head->version != WHI_CHECKPOINT_VERSION) {
        return whi_refuse(WH_WRONG_BUILD,
                          "%.200s: the file has version %llu of the format, this library reads %u",
                          r->path, (unsigned long long)head->version, WHI_CHECKPOINT_VERSION);
    }
    if (got < sizeof *head) {
        return bad(r, "the file is cut short");
    }
    if (head->head_bytes != sizeof *head || head->allocator[sizeof head->allocator - 1] != '\0' ||
        head->crc != crc32(0, (const unsigned char *)head, offsetof(whi_file_head, crc))) {
        return bad(r, "the file is damaged, at its head");
    }
    return WH_OK;
}

/* Reads all of the file once. */
static wh_status verify(reader *r) {
    const off_t bytes = lseek(r->fd, 0, SEEK_END);
    if (bytes < 0 || lseek(r->fd, 0, SEEK_SET) != 0) {
        return whi_refuse(WH_IO_ERROR, "%.200s: this is no plain file", r->path);
    }
    const uint64_t covered = (uint64_t)bytes - sizeof(((whi_file_tail *)0)->crc);
    whi_file_tail tail;
    size_t got;
    if ((uint64_t)bytes < sizeof(whi_file_head) + sizeof tail) {
        return bad(r, "the file is cut short");
    }
    uLong crc = 0;
    for (uint64_t at = 0; at < covered; at += got) {
        const uint64_t rest = covered - at;
        TRY(get(r, r->piece, rest < WHI_CHECKPOINT_PIECE ? (size_t)rest : WHI_CHECKPOINT_PIECE,
                &got));
        if (got == 0) {
            return bad(r, "the file changes");
        }
        crc = crc32(crc, r->piece, (uInt)got);
    }
    if (lseek(r->fd, bytes - (off_t)sizeof tail, SEEK_SET) < 0) {
        return whi_refuse(WH_IO_ERROR, "%.200s: cannot read: %s", r->path, strerror(errno));
    }
    TRY(get(r, &tail, sizeof tail, &got));
    if (got != sizeof tail || tail.file_bytes != (uint64_t)bytes || tail.crc != crc) {
        return bad(r, "the file is cut short or damaged: its checksum is wrong");
    }
    r->left = (uint64_t)bytes - sizeof(whi_file_head) - sizeof tail;
    return lseek(r->fd, (off_t)sizeof(whi_file_head), SEEK_SET) >= 0 ? WH_OK : WH_IO_ERROR;
}

/* Something for inflate to read, if there is more. */
static wh_status refill(reader *r) {
    if (r->z.avail_in == 0 && r->left != 0) {
        size_t got;
        TRY(get(r, r->in, r->left < WHI_CHECKPOINT_PIECE ? (size_t)r->left : WHI_CHECKPOINT_PIECE,
                &got));
        r->z.next_in = r->in;
        r->z.avail_in = (uInt)got;
        r->left -= got;
    }
    return WH_OK;
}

/* The next `bytes` bytes of the stream. */
static wh_status expand(reader *r, void *to, size_t bytes) {
    r->z.next_out = to;
    r->z.avail_out = (uInt)bytes;
    while (r->z.avail_out != 0) {
        TRY(refill(r));
        const int z = inflate(&r->z, Z_NO_FLUSH);
        if (z != Z_OK && !(z == Z_STREAM_END && r->z.avail_out == 0)) {
            return bad(r, "the file's compressed part does not fit to its head");
        }
    }
    return WH_OK;
}

static wh_status expand_words(reader *r, uint64_t *words, uint64_t n) {
    const uint64_t most = WHI_CHECKPOINT_PIECE / 8;
    for (uint64_t k = 0; k < n; k += most) {
        TRY(expand(r, words + k, (size_t)(n - k < most ? n - k : most) * 8));
    }
    return WH_OK;
}

static wh_status expand_device(void *context, void *at, uint64_t bytes) {
    reader *r = context;
    for (uint64_t k = 0; k < bytes; k += WHI_CHECKPOINT_PIECE) {
        const uint64_t rest = bytes - k;
        const size_t n = rest < WHI_CHECKPOINT_PIECE ? (size_t)rest : WHI_CHECKPOINT_PIECE;
        TRY(expand(r, r->piece, n));
        TRY(wh_device_copy_in(r->device, (unsigned char *)at + k, r->piece, n));
    }
    return WH_OK;
}

/* Opens the file, and knows what is in it. */
static wh_status open_file(reader *r, whi_image *im) {
    whi_file_head head;
    r->in = malloc(WHI_CHECKPOINT_PIECE);
    r->piece = malloc(WHI_CHECKPOINT_PIECE);
    r->inflating = r->in != NULL && r->piece != NULL && inflateInit(&r->z) == Z_OK;
    if (!r->inflating) {
        return WH_OUT_OF_MEMORY;
    }
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) {
        return whi_refuse(WH_IO_ERROR, "%.200s: cannot open: %s", r->path, strerror(errno));
    }
    TRY(get_head(r, &head));
    TRY(verify(r));
    TRY(whi_image_read(im, head.allocator, &head.facts));
    TRY(expand_words(r, im->units, im->n_units));
    return expand_words(r, im->live, im->n_live);
}

static wh_status fill(reader *r, const whi_image *im, wh_heap *heap, int64_t *moved) {
    whi_forget_error();
    r->device = wh_heap_device(heap);
    TRY(whi_image_each(im, heap, expand_device, r));
    unsigned char more;
    int z = Z_OK; /* the stream's own end may be yet to come */
    r->z.next_out = &more;
    r->z.avail_out = 1;
    while (z == Z_OK && r->z.avail_out != 0) {
        TRY(refill(r));
        z = inflate(&r->z, Z_NO_FLUSH);
    }
    if (z != Z_STREAM_END || r->z.avail_out == 0 || r->z.avail_in != 0 || r->left != 0) {
        return bad(r, "the file's compressed part does not end where it should");
    }
    return whi_image_adopt(heap, im, moved);
}

wh_status wh_heap_load_for(wh_heap **heap, const char *path, const wh_heap_options *options,
                           int64_t *moved, size_t options_bytes, int in_cuda) {
    WHI_RANGE("wh_heap_load");
    if (heap != NULL) {
        *heap = NULL;
    }
    if (heap == NULL || moved == NULL) {
        return WH_BAD_ARGUMENT;
    }
    *moved = 0;
    if (path == NULL || path[0] == '\0') {
        return WH_BAD_ARGUMENT;
    }
    reader r;
    whi_image image;
    wh_heap *h = NULL;
    memset(&r, 0, sizeof r);
    memset(&image, 0, sizeof image);
    r.path = path;
    r.fd = -1;
    wh_status s = open_file(&r, &image);
    s = s == WH_OK ? whi_image_create(&h, &image, options, options_bytes, in_cuda) : s;
    s = s == WH_OK ? fill(&r, &image, h, moved) : s;
    s = with_name(&r, s);
    if (s != WH_OK) {
        (void)wh_heap_destroy(h);
        h = NULL;
    }
    *heap = h;
    if (r.fd >= 0) {
        (void)close(r.fd);
    }
    if (r.inflating) {
        (void)inflateEnd(&r.z);
    }
    whi_image_drop(&image);
    free(r.in);
    free(r.piece);
    return s;
}
