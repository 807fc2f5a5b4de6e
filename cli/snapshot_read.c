/* snapshot_read.c: reads what wh_heap_snapshot_save wrote (docs/LEAKS.md has the form). The file is
 * one JSON object, whose members are objects and lists. Lists are read a row at a time: jansson
 * parses each row, and nothing of it stays. So a million blocks take 56 MB, and not ten times that.
 *
 * What the file says is believed after it has been looked at: numbers in their ranges, pieces that
 * cover the heap, blocks in order. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/snapshot.h"

#define MOST_CHUNKS ((uint64_t)1 << 32)
#define MOST_CHUNK_BYTES ((uint64_t)1 << 30)
#define MEND "; save it again (wh_heap_snapshot_save)"

typedef struct reader {
    FILE *file;
    snap *s;
    uint64_t room;       /* of the list that is being read */
    uint64_t next_chunk; /* pieces cover those below it */
    uint64_t live;       /* of the pieces */
    uint64_t ends[3];    /* pieces, blocks, sites, as the end says */
    int status;          /* not 0: a complaint was made */
} reader;

/* --- complaints ------------------------------------------------------------------------------- */

/* The line that has been read up to. 0: not known. */
static uint64_t line_of(FILE *file) {
    const long end = ftell(file);
    uint64_t line = 1;
    if (end < 0 || fseek(file, 0, SEEK_SET) != 0) {
        return 0;
    }
    for (long i = 0; i < end; i++) {
        const int c = getc(file);
        line += c == '\n';
        if (c == EOF) {
            break;
        }
    }
    return line;
}

/* Returns 0, as all that reads does when it has failed. */
static int wrong(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(reader *r, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->status == 0) {
        r->status = cli_complain("%s:%" PRIu64 ": %s", r->s->path, line_of(r->file), text);
    }
    return 0;
}
static int no_memory(reader *r) {
    return wrong(r, "the host has not enough memory for it");
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* The next character that is not white. */
static int next(reader *r) {
    int c = getc(r->file);
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        c = getc(r->file);
    }
    return c;
}

static int expect(reader *r, int wanted) {
    const int c = next(r);
    if (c == wanted) {
        return 1;
    }
    if (ferror(r->file) != 0) {
        return wrong(r, "cannot be read: %s", strerror(errno));
    }
    return c == EOF ? wrong(r, "the file ends too early: it is cut short, or is no snapshot" MEND)
                    : wrong(r, "'%c' is expected here: it is no snapshot of a heap" MEND, wanted);
}

/* An object or a list. NULL: it is none. */
static json_t *load(reader *r) {
    json_error_t error;
    json_t *j = json_loadf(r->file, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (j == NULL) {
        char text[sizeof error.text];
        (void)wrong(r, "%s" MEND, cli_name_text(error.text, text, sizeof text));
    }
    return j;
}

/* A name between quotes, and the colon. */
static int read_name(reader *r, char *name, size_t room) {
    size_t n = 0;
    if (!expect(r, '"')) {
        return 0;
    }
    for (int c = getc(r->file); c != '"'; c = getc(r->file)) {
        if (c == EOF || c < ' ' || c == '\\' || n + 1 >= room) {
            return wrong(r, "it is no snapshot of a heap: a member has no name that is known" MEND);
        }
        name[n++] = (char)c;
    }
    name[n] = '\0';
    return expect(r, ':');
}

static int number(reader *r, const json_t *j, const char *what, uint64_t most, uint64_t *v) {
    const json_int_t n = json_integer_value(j);
    if (!json_is_integer(j) || n < 0 || (uint64_t)n > most) {
        return wrong(r, "%s is no number from 0 to %" PRIu64 MEND, what, most);
    }
    *v = (uint64_t)n;
    return 1;
}
static int number_or_null(reader *r, const json_t *j, const char *what, uint64_t *v) {
    *v = SNAP_UNKNOWN;
    return json_is_null(j) || number(r, j, what, INT64_MAX, v);
}

/* Room for one more. */
static void *grow(reader *r, void *list, uint64_t n, size_t bytes) {
    if (n < r->room) {
        return list;
    }
    r->room = 2 * r->room + 256;
    void *more = realloc(list, (size_t)r->room * bytes);
    if (more == NULL) {
        r->room = n;
        (void)no_memory(r);
    }
    return more;
}

/* --- parts ------------------------------------------------------------------------------------ */

static int read_text(reader *r, const json_t *j, const char *name, char **text) {
    const char *value = json_string_value(json_object_get(j, name));
    if (value == NULL) {
        return wrong(r, "%s is no text" MEND, name);
    }
    free(*text);
    *text = strdup(value);
    return *text != NULL ? 1 : no_memory(r);
}

static int read_head(reader *r, const json_t *j) {
    snap *s = r->s;
    const struct {
        const char *name;
        uint64_t most, *to;
    } fields[] = {
        {"pid", INT64_MAX, &s->pid},
        {"created_ns", INT64_MAX, &s->created_ns},
        {"time_ns", INT64_MAX, &s->time_ns},
        {"base", INT64_MAX, &s->base},
        {"chunk_bytes", MOST_CHUNK_BYTES, &s->chunk_bytes},
        {"chunks", MOST_CHUNKS, &s->chunks},
        {"heap_bytes", INT64_MAX, &s->heap_bytes},
        {"metadata_bytes", INT64_MAX, &s->metadata_bytes},
        {"used_bytes", INT64_MAX, &s->used_bytes},
        {"live_blocks", INT64_MAX, &s->live_blocks},
        {"largest_free", INT64_MAX, &s->largest_free},
        {"failed", INT64_MAX, &s->failed},
        {"bad_frees", INT64_MAX, &s->bad_frees},
    };
    const char *format = json_string_value(json_object_get(j, "format"));
    uint64_t version = 0;
    if (format == NULL || strcmp(format, "warpheap snapshot") != 0) {
        return wrong(r, "it is no snapshot of a heap (wh_heap_snapshot_save writes one)");
    }
    if (!number(r, json_object_get(j, "version"), "version", INT64_MAX, &version)) {
        return 0;
    }
    if (version != 1) {
        return wrong(r,
                     "version %" PRIu64 " is none that this program reads (it reads 1): take "
                     "the `warpheap` that is as new as the library that saved it",
                     version);
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!number(r, json_object_get(j, fields[i].name), fields[i].name, fields[i].most,
                    fields[i].to)) {
            return 0;
        }
    }
    s->checked = json_is_true(json_object_get(j, "checked"));
    if (s->chunk_bytes == 0 || s->chunks == 0) {
        return wrong(r, "a heap without chunks is none" MEND);
    }
    return (!s->checked || number(r, json_object_get(j, "mark"), "mark", INT64_MAX, &s->mark)) &&
           read_text(r, j, "allocator", &s->allocator) && read_text(r, j, "device", &s->device);
}

static int read_piece(reader *r, const json_t *j) {
    static const char *const kinds[SNAP_KINDS] = {"other", "free", "absent", "slab", "large"};
    snap *s = r->s;
    const uint64_t most = s->chunks * s->chunk_bytes;
    const char *kind = json_string_value(json_array_get(j, 2));
    snap_piece p;
    memset(&p, 0, sizeof p);
    while (kind != NULL && p.kind < SNAP_KINDS && strcmp(kind, kinds[p.kind]) != 0) {
        p.kind++;
    }
    if (kind == NULL || p.kind == SNAP_KINDS) {
        return wrong(r, "a piece is of no kind that is known" MEND);
    }
    if (!number(r, json_array_get(j, 0), "a chunk", most, &p.chunk) ||
        !number(r, json_array_get(j, 1), "a count of chunks", s->chunks, &p.chunks)) {
        return 0;
    }
    if (p.chunk != r->next_chunk || p.chunks == 0 || p.chunks > s->chunks - p.chunk) {
        return wrong(
            r, "pieces are to cover the heap, each chunk once: chunk %" PRIu64 " was expected" MEND,
            r->next_chunk);
    }
    const size_t at = p.kind == SNAP_SLAB ? 5 : 3; /* of live */
    if (p.kind == SNAP_SLAB &&
        (!number(r, json_array_get(j, 3), "the size of a slot", most, &p.slot_bytes) ||
         !number(r, json_array_get(j, 4), "a count of slots", most, &p.slots) ||
         !number(r, json_array_get(j, 7), "a count of slots", p.slots, &p.ready))) {
        return 0;
    }
    p.slots = p.kind == SNAP_LARGE ? 1 : p.slots;
    if (p.kind >= SNAP_SLAB &&
        (!number(r, json_array_get(j, at), "a count of blocks", p.slots, &p.live) ||
         !number(r, json_array_get(j, at + 1), "a count of blocks", p.slots - p.live, &p.kept))) {
        return 0;
    }
    if (p.slots != 0 && p.slot_bytes > p.chunks * s->chunk_bytes / p.slots) {
        return wrong(r, "a slab has more slots than it has room for" MEND);
    }
    s->pieces = grow(r, s->pieces, s->n_pieces, sizeof p);
    if (s->pieces == NULL) {
        return 0;
    }
    s->pieces[s->n_pieces++] = p;
    r->next_chunk += p.chunks;
    r->live += p.live;
    return 1;
}

static int read_block(reader *r, const json_t *j) {
    snap *s = r->s;
    const uint64_t most = s->chunks * s->chunk_bytes;
    snap_block b;
    uint64_t site = SNAP_NO_SITE;
    memset(&b, 0, sizeof b);
    b.block = b.thread = b.mark = SNAP_UNKNOWN;
    if (!number(r, json_array_get(j, 0), "a block's offset", most, &b.offset) ||
        !number(r, json_array_get(j, 1), "a block's size", most, &b.taken)) {
        return 0;
    }
    b.bytes = b.taken;
    if (s->checked && (!number(r, json_array_get(j, 2), "a block's size", b.taken, &b.bytes) ||
                       !number(r, json_array_get(j, 3), "a site", SNAP_NO_SITE - 1, &site) ||
                       !number_or_null(r, json_array_get(j, 4), "a thread block", &b.block) ||
                       !number_or_null(r, json_array_get(j, 5), "a thread", &b.thread) ||
                       !number_or_null(r, json_array_get(j, 6), "a mark", &b.mark))) {
        return 0;
    }
    if (b.bytes > most - b.offset) {
        return wrong(r, "a block ends behind the heap" MEND);
    }
    b.site = (uint32_t)site;
    if (s->n_blocks != 0 && b.offset <= s->blocks[s->n_blocks - 1].offset) {
        return wrong(r, "blocks are not in the order of their addresses" MEND);
    }
    s->blocks = grow(r, s->blocks, s->n_blocks, sizeof b);
    if (s->blocks == NULL) {
        return 0;
    }
    s->blocks[s->n_blocks++] = b;
    return 1;
}

static int read_site(reader *r, const json_t *j) {
    snap *s = r->s;
    snap_site site;
    const char *file = json_string_value(json_array_get(j, 0));
    if (file == NULL) {
        return wrong(r, "a site has no file" MEND);
    }
    if (!number(r, json_array_get(j, 1), "a line", UINT32_MAX, &site.line)) {
        return 0;
    }
    s->sites = grow(r, s->sites, s->n_sites, sizeof site);
    if (s->sites == NULL) {
        return 0;
    }
    site.file = strdup(file);
    s->sites[s->n_sites++] = site;
    return site.file != NULL ? 1 : no_memory(r);
}

static int read_end(reader *r, const json_t *j) {
    static const char *const names[] = {"pieces", "blocks", "sites"};
    for (uint32_t i = 0; i < 3; i++) {
        if (!number(r, json_object_get(j, names[i]), names[i], INT64_MAX, &r->ends[i])) {
            return 0;
        }
    }
    return 1;
}

/* --- the file --------------------------------------------------------------------------------- */

typedef int (*read_fn)(reader *r, const json_t *j);
static const struct member {
    const char *name;
    read_fn read; /* of an object, or of a row */
    int is_list;
} members[] = {
    {"snapshot", read_head, 0}, {"pieces", read_piece, 1}, {"blocks", read_block, 1},
    {"sites", read_site, 1},    {"end", read_end, 0},
};
#define N_MEMBERS (sizeof members / sizeof *members)

static int read_one(reader *r, read_fn read, const char *what) {
    json_t *j = load(r);
    const int is_row = strcmp(what, "snapshot") != 0 && strcmp(what, "end") != 0;
    int ok = j != NULL;
    if (ok && (is_row ? !json_is_array(j) : !json_is_object(j))) {
        ok = wrong(r, "%s: a %s is expected" MEND, what, is_row ? "list" : "member of names");
    }
    ok = ok && read(r, j);
    json_decref(j);
    return ok;
}

static int read_list(reader *r, const struct member *m) {
    r->room = 0;
    if (!expect(r, '[')) {
        return 0;
    }
    int c = next(r);
    while (c != ']') {
        (void)ungetc(c, r->file);
        if (!read_one(r, m->read, m->name)) {
            return 0;
        }
        c = next(r);
        if (c == ',') {
            c = next(r);
            if (c == ']') {
                return wrong(r, "a row is missing behind a comma" MEND);
            }
        } else if (c != ']') {
            (void)ungetc(c, r->file);
            return expect(r, ']');
        }
    }
    return 1;
}

static int read_all(reader *r) {
    char name[32];
    if (!expect(r, '{')) {
        return 0;
    }
    for (size_t i = 0; i < N_MEMBERS; i++) {
        if ((i != 0 && !expect(r, ',')) || !read_name(r, name, sizeof name)) {
            return 0;
        }
        if (strcmp(name, members[i].name) != 0) {
            return wrong(r, "'%s' is expected here: it is no snapshot of a heap" MEND,
                         members[i].name);
        }
        if (members[i].is_list ? !read_list(r, &members[i])
                               : !read_one(r, members[i].read, members[i].name)) {
            return 0;
        }
    }
    if (!expect(r, '}')) {
        return 0;
    }
    return next(r) == EOF || wrong(r, "there is something behind the end of the snapshot" MEND);
}

static int agrees(reader *r) {
    const snap *s = r->s;
    if (r->ends[0] != s->n_pieces || r->ends[1] != s->n_blocks || r->ends[2] != s->n_sites ||
        r->next_chunk != s->chunks || r->live != s->n_blocks) {
        return wrong(r,
                     "rows are missing: the end says %" PRIu64 " pieces, %" PRIu64
                     " blocks, %" PRIu64 " sites" MEND,
                     r->ends[0], r->ends[1], r->ends[2]);
    }
    for (uint64_t i = 0; s->checked && i < s->n_blocks; i++) {
        if (s->blocks[i].site >= s->n_sites) {
            return wrong(r, "a block has a site that is not listed" MEND);
        }
    }
    return 1;
}

/* --- sites ------------------------------------------------------------------------------------ */

typedef struct place {
    snap_site site;
    uint32_t was;
} place;

static int by_place(const void *a, const void *b) {
    const snap_site *x = &((const place *)a)->site, *y = &((const place *)b)->site;
    const int files = strcmp(x->file, y->file);
    return files != 0 ? files : (x->line > y->line) - (x->line < y->line);
}

/* Each place once: a header has a name for each file that includes it. */
static int join_sites(reader *r) {
    snap *s = r->s;
    const size_t n = (size_t)s->n_sites;
    place *places = malloc(n * sizeof *places + 1);
    uint32_t *now = malloc(n * sizeof *now + 1);
    if (places == NULL || now == NULL) {
        free(places);
        free(now);
        return no_memory(r);
    }
    for (size_t i = 0; i < n; i++) {
        places[i].site = s->sites[i];
        places[i].was = (uint32_t)i;
    }
    qsort(places, n, sizeof *places, by_place);
    s->n_sites = 0;
    for (size_t i = 0; i < n; i++) {
        if (i != 0 && by_place(&places[i - 1], &places[i]) == 0) {
            free(places[i].site.file);
            places[i].site = s->sites[s->n_sites - 1];
        } else {
            s->sites[s->n_sites++] = places[i].site;
        }
        now[places[i].was] = (uint32_t)(s->n_sites - 1);
    }
    for (uint64_t i = 0; s->checked && i < s->n_blocks; i++) {
        s->blocks[i].site = now[s->blocks[i].site];
    }
    free(places);
    free(now);
    return 1;
}

int snap_read(snap *s, const char *path) {
    reader r;
    memset(s, 0, sizeof *s);
    memset(&r, 0, sizeof r);
    s->path = path;
    r.s = s;
    r.file = fopen(path, "rb");
    if (r.file == NULL) {
        return cli_complain("%s: cannot be opened: %s", path, strerror(errno));
    }
    if (!read_all(&r) || !agrees(&r) || !join_sites(&r)) {
        snap_drop(s);
    }
    (void)fclose(r.file);
    return r.status;
}

void snap_drop(snap *s) {
    for (uint64_t i = 0; i < s->n_sites; i++) {
        free(s->sites[i].file);
    }
    free(s->sites);
    free(s->blocks);
    free(s->pieces);
    free(s->allocator);
    free(s->device);
    memset(s, 0, sizeof *s);
}
