/* graph_file.c: the readers of graph_file.h: one scanner over zlib's stream, one
 * parser per format, and the sort into adjacency lists.
 *
 * The scanner never looks at more than one byte ahead and keeps no lines, so a line
 * may be of any length. It treats '\r' as a blank. The first failure is kept:
 * after a read error the parsers see the end of the file, and what they then say
 * about it is dropped.
 */
#include "workload/graph/graph_file.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define BUFFER_BYTES (1u << 18)
#define TOKEN_BYTES 64 /* longest number that is looked at as text */

enum { END_OF_FILE = -1 };

typedef struct reader {
    gzFile file;
    const unsigned char *at, *end; /* unread part of buffer */
    unsigned char *buffer;
    uint64_t line; /* of *at, from 1 */
    int ended;
    char extra_blank; /* one more separator: ',' in edge lists */
    uint32_t max_vertices;
    wh_graph_arcs *arcs;
    uint64_t room; /* entries that the arrays of arcs hold */
    wh_graph_file_error *error;
} reader;

/* --- errors ----------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static wh_status
fail(reader *r, wh_status status, uint64_t line, const char *format, ...) {
    wh_graph_file_error *e = r->error;
    if (e->status == WH_OK) {
        va_list list;
        va_start(list, format);
        (void)vsnprintf(e->text, sizeof e->text, format, list);
        va_end(list);
        e->status = status;
        e->line = line;
    }
    return e->status;
}

static void set_path(wh_graph_file_error *e, const char *path) {
    const size_t n = strlen(path);
    if (n < sizeof e->file) {
        memcpy(e->file, path, n + 1);
    } else {
        (void)snprintf(e->file, sizeof e->file, "...%s", path + (n - (sizeof e->file - 4)));
    }
}

void wh_graph_file_error_format(const wh_graph_file_error *error, char *string, size_t size) {
    if (error->line != 0) {
        (void)snprintf(string, size, "%s:%llu: %s", error->file, (unsigned long long)error->line,
                       error->text);
    } else {
        (void)snprintf(string, size, "%s: %s", error->file, error->text);
    }
}

/* --- scanner ---------------------------------------------------------------- */

/* Refills the buffer; 0 at the end of the file. */
static int refill(reader *r) {
    if (r->ended) {
        return 0;
    }
    const int n = gzread(r->file, r->buffer, BUFFER_BYTES);
    int zerror = Z_OK;
    const char *text = gzerror(r->file, &zerror);
    if (n <= 0) {
        r->ended = 1;
        if (zerror == Z_BUF_ERROR) { /* zlib's word for a stream without its end */
            (void)fail(r, WH_IO_ERROR, r->line,
                       "the gzip data is cut off here; fetch or compress the file again");
        } else if (zerror == Z_ERRNO) {
            (void)fail(r, WH_IO_ERROR, r->line, "cannot be read: %s", strerror(errno));
        } else if (zerror != Z_OK) {
            (void)fail(r, WH_IO_ERROR, r->line,
                       "the gzip data is damaged (%s); fetch or compress the file again", text);
        }
        return 0;
    }
    r->at = r->buffer;
    r->end = r->buffer + n;
    return 1;
}

static inline int peek(reader *r) {
    return r->at != r->end || refill(r) ? *r->at : END_OF_FILE;
}

static inline void advance(reader *r) {
    r->line += *r->at == '\n';
    r->at++;
}

static inline int is_blank(const reader *r, int c) {
    return c == ' ' || c == '\t' || c == '\r' || c == r->extra_blank;
}

/* Skips blanks; returns the byte behind them. */
static inline int skip_blanks(reader *r) {
    int c = peek(r);
    while (is_blank(r, c)) {
        advance(r);
        c = peek(r);
    }
    return c;
}

static inline int ends_line(int c) {
    return c == '\n' || c == END_OF_FILE;
}

/* Goes to the first byte of the next line. */
static void next_line(reader *r) {
    int c;
    while ((c = peek(r)) != END_OF_FILE) {
        advance(r);
        if (c == '\n') {
            return;
        }
    }
}

/* Goes behind the blanks of the first line from here on that holds more than blanks
 * and is no comment; returns the byte there. comment2 may be 0. */
static int skip_to_content(reader *r, char comment, char comment2) {
    for (;;) {
        const int c = skip_blanks(r);
        if (c == '\n' || c == comment || (comment2 != 0 && c == comment2)) {
            next_line(r);
        } else {
            return c;
        }
    }
}

/* Takes the rest of a token: text receives what fits, other than printable bytes
 * as '?'. Returns its length, TOKEN_BYTES if it is longer than that. */
static size_t take_token(reader *r, char text[TOKEN_BYTES], size_t have) {
    size_t n = have;
    int c = peek(r);
    while (!ends_line(c) && !is_blank(r, c)) {
        if (n < TOKEN_BYTES - 1) {
            text[n] = (char)(c > ' ' && c < 127 ? c : '?');
        }
        n += n < TOKEN_BYTES;
        advance(r);
        c = peek(r);
    }
    text[n < TOKEN_BYTES ? n : TOKEN_BYTES - 1] = '\0';
    return n;
}

static wh_status bad_token(reader *r, const char *wanted, size_t have, char text[TOKEN_BYTES]) {
    const uint64_t line = r->line;
    const int at_end = have == 0 && ends_line(peek(r));
    const size_t n = at_end ? 0 : take_token(r, text, have);
    if (at_end) {
        return fail(r, WH_BAD_FORMAT, line, "expected %s, found the end of the %s; complete it",
                    wanted, peek(r) == END_OF_FILE ? "file" : "line");
    }
    return fail(r, WH_BAD_FORMAT, line, "expected %s, found '%.40s%s'; correct the line", wanted,
                text, n > 40 ? "..." : "");
}

/* An unsigned number, behind blanks, on this line. A number of 2^64 or more
 * counts as UINT64_MAX: every caller has a smaller limit. */
static wh_status take_number(reader *r, const char *wanted, uint64_t *value) {
    char text[TOKEN_BYTES];
    size_t n = 0;
    uint64_t v = 0;
    int c = skip_blanks(r);
    while (c >= '0' && c <= '9') {
        const unsigned digit = (unsigned)(c - '0');
        v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
        if (n < TOKEN_BYTES) {
            text[n] = (char)c;
            n++;
        }
        advance(r);
        c = peek(r);
    }
    if (n == 0 || !(ends_line(c) || is_blank(r, c))) {
        return bad_token(r, wanted, n < TOKEN_BYTES ? n : TOKEN_BYTES - 1, text);
    }
    *value = v;
    return WH_OK;
}

/* Any number, behind blanks, on this line. */
static wh_status take_real(reader *r, const char *wanted, double *value) {
    char text[TOKEN_BYTES];
    const uint64_t line = r->line;
    const int c = skip_blanks(r);
    if (ends_line(c)) {
        return bad_token(r, wanted, 0, text);
    }
    const size_t n = take_token(r, text, 0);
    char *end = text;
    *value = strtod(text, &end);
    if (n >= TOKEN_BYTES || *end != '\0') {
        return fail(r, WH_BAD_FORMAT, line, "expected %s, found '%.40s%s'; correct the line",
                    wanted, text, n > 40 ? "..." : "");
    }
    return WH_OK;
}

/* Nothing but blanks may follow on this line. */
static wh_status end_line(reader *r, const char *content) {
    char text[TOKEN_BYTES];
    if (ends_line(skip_blanks(r))) {
        next_line(r);
        return WH_OK;
    }
    const uint64_t line = r->line;
    (void)take_token(r, text, 0);
    return fail(r, WH_BAD_FORMAT, line, "'%.40s' follows %s; only that belongs on the line", text,
                content);
}

/* --- arcs ------------------------------------------------------------------- */

static wh_status no_memory(reader *r) {
    return fail(r, WH_OUT_OF_MEMORY, 0, "not enough memory for %llu arcs",
                (unsigned long long)r->arcs->n_arcs);
}

/* Makes an array as long as `room` entries of `size` bytes. */
static int resize(void *array, uint64_t room, size_t size) {
    void *old, *grown;
    if (room > SIZE_MAX / size) {
        return 0;
    }
    memcpy(&old, array, sizeof old);
    grown = realloc(old, (size_t)room * size);
    if (grown == NULL) {
        return 0;
    }
    memcpy(array, &grown, sizeof grown);
    return 1;
}

static wh_status grow(reader *r, int timed) {
    wh_graph_arcs *a = r->arcs;
    const uint64_t room = r->room == 0 ? 1024 : 2 * r->room;
    if (!resize(&a->from, room, sizeof *a->from) || !resize(&a->to, room, sizeof *a->to) ||
        (timed && !resize(&a->time, room, sizeof *a->time))) {
        return no_memory(r);
    }
    r->room = room;
    return WH_OK;
}

static inline wh_status add_arc(reader *r, uint32_t u, uint32_t v) {
    wh_graph_arcs *a = r->arcs;
    if (a->n_arcs == r->room) {
        const wh_status s = grow(r, 0);
        if (s != WH_OK) {
            return s;
        }
    }
    a->from[a->n_arcs] = u;
    a->to[a->n_arcs] = v;
    a->n_arcs++;
    return WH_OK;
}

static wh_status add_entry(reader *r, uint32_t u, uint32_t v, int both) {
    r->arcs->n_entries++;
    r->arcs->n_self_loops += u == v;
    wh_status s = add_arc(r, u, v);
    if (s == WH_OK && both && u != v) {
        s = add_arc(r, v, u);
    }
    return s;
}

/* A vertex number from 1 to n, returned from 0. */
static inline wh_status take_vertex1(reader *r, const char *wanted, uint32_t n, uint32_t *vertex) {
    uint64_t v = 0;
    const uint64_t line = r->line;
    const wh_status s = take_number(r, wanted, &v);
    if (s != WH_OK) {
        return s;
    }
    if (v < 1 || v > n) {
        return fail(r, WH_BAD_FORMAT, line,
                    "%s %llu is out of range 1..%u; correct it or the size in the header", wanted,
                    (unsigned long long)v, n);
    }
    *vertex = (uint32_t)(v - 1);
    return WH_OK;
}

static wh_status check_vertex_count(reader *r, uint64_t line, uint64_t n) {
    if (n == 0) {
        return fail(r, WH_BAD_FORMAT, line, "the header announces no vertices; nothing to read");
    }
    if (n > r->max_vertices) {
        return fail(r, WH_BAD_FORMAT, line,
                    "%llu vertices are more than the %u allowed; take a smaller graph",
                    (unsigned long long)n, r->max_vertices);
    }
    return WH_OK;
}

/* --- Matrix Market ------------------------------------------------------------ */

typedef struct market_header {
    int has_value;
    int both; /* each entry stands for both directions */
} market_header;

static wh_status read_market_header(reader *r, market_header *h) {
    char word[5][TOKEN_BYTES];
    const uint64_t line = r->line;
    memset(word, 0, sizeof word);
    for (int i = 0; i < 5; i++) {
        if (!ends_line(skip_blanks(r))) {
            (void)take_token(r, word[i], 0);
        }
    }
    if (strcasecmp(word[0], "%%MatrixMarket") != 0) {
        return fail(r, WH_BAD_FORMAT, line,
                    "a Matrix Market file starts with '%%%%MatrixMarket matrix coordinate pattern "
                    "general' or the like; put that line first");
    }
    if (strcasecmp(word[1], "matrix") != 0 || strcasecmp(word[2], "coordinate") != 0) {
        return fail(r, WH_BAD_FORMAT, line,
                    "'%.20s %.20s' is not read; write the graph as 'matrix coordinate'", word[1],
                    word[2]);
    }
    h->has_value = strcasecmp(word[3], "real") == 0 || strcasecmp(word[3], "integer") == 0;
    if (!h->has_value && strcasecmp(word[3], "pattern") != 0) {
        return fail(r, WH_BAD_FORMAT, line,
                    "values of kind '%.20s' are not read; use pattern, integer or real", word[3]);
    }
    h->both = strcasecmp(word[4], "symmetric") == 0 || strcasecmp(word[4], "skew-symmetric") == 0;
    if (!h->both && strcasecmp(word[4], "general") != 0) {
        return fail(r, WH_BAD_FORMAT, line,
                    "symmetry '%.20s' is not read; use general, symmetric or skew-symmetric",
                    word[4]);
    }
    return end_line(r, "the Matrix Market header");
}

static wh_status read_market_entry(reader *r, const market_header *h, uint32_t n) {
    uint32_t i = 0, j = 0;
    double value;
    wh_status s = take_vertex1(r, "row", n, &i);
    if (s == WH_OK) {
        s = take_vertex1(r, "column", n, &j);
    }
    if (s == WH_OK && h->has_value) {
        s = take_real(r, "a value", &value);
    }
    if (s == WH_OK) {
        s = end_line(r, "the entry");
    }
    return s == WH_OK ? add_entry(r, i, j, h->both) : s;
}

static wh_status read_market(reader *r) {
    market_header h = {0, 0};
    uint64_t rows = 0, columns = 0, entries = 0;
    wh_status s = read_market_header(r, &h);
    if (s != WH_OK) {
        return s;
    }
    (void)skip_to_content(r, '%', 0);
    const uint64_t line = r->line;
    s = take_number(r, "the number of rows", &rows);
    if (s == WH_OK) {
        s = take_number(r, "the number of columns", &columns);
    }
    if (s == WH_OK) {
        s = take_number(r, "the number of entries", &entries);
    }
    if (s == WH_OK) {
        s = end_line(r, "the size line (rows, columns, entries)");
    }
    if (s == WH_OK && rows != columns) {
        s = fail(r, WH_BAD_FORMAT, line,
                 "a %llu x %llu matrix is no graph; the matrix must be square",
                 (unsigned long long)rows, (unsigned long long)columns);
    }
    if (s == WH_OK) {
        s = check_vertex_count(r, line, rows);
    }
    if (s == WH_OK) {
        r->arcs->n_vertices = (uint32_t)rows;
    }
    for (uint64_t k = 0; s == WH_OK && k < entries; k++) {
        if (skip_to_content(r, '%', 0) == END_OF_FILE) {
            s = fail(r, WH_BAD_FORMAT, r->line,
                     "the file ends after %llu of %llu entries; it is cut off, or line %llu is "
                     "wrong",
                     (unsigned long long)k, (unsigned long long)entries, (unsigned long long)line);
        } else {
            s = read_market_entry(r, &h, (uint32_t)rows);
        }
    }
    if (s == WH_OK && skip_to_content(r, '%', 0) != END_OF_FILE) {
        s = fail(r, WH_BAD_FORMAT, r->line,
                 "more than the %llu entries that line %llu announces; correct that line",
                 (unsigned long long)entries, (unsigned long long)line);
    }
    return s;
}

/* --- METIS -------------------------------------------------------------------- */

typedef struct metis_header {
    uint64_t line;
    uint64_t n;
    uint64_t m;
    uint64_t skip;    /* numbers in front of the neighbours: size and weights */
    int edge_weights; /* each neighbour is followed by a weight */
} metis_header;

static wh_status read_metis_header(reader *r, metis_header *h) {
    uint64_t format = 0, weights = 1;
    (void)skip_to_content(r, '%', 0);
    h->line = r->line;
    wh_status s = take_number(r, "the number of vertices", &h->n);
    if (s == WH_OK) {
        s = take_number(r, "the number of edges", &h->m);
    }
    if (s == WH_OK && !ends_line(skip_blanks(r))) {
        s = take_number(r, "fmt", &format);
    }
    if (s == WH_OK && !ends_line(skip_blanks(r))) {
        s = take_number(r, "ncon", &weights);
    }
    if (s == WH_OK) {
        s = end_line(r, "the METIS header (vertices, edges, fmt, ncon)");
    }
    if (s == WH_OK && (format > 111 || format / 10 % 10 > 1 || format % 10 > 1)) {
        s = fail(r, WH_BAD_FORMAT, h->line,
                 "fmt %llu is unknown; it is three digits 0 or 1 (vertex sizes, vertex weights, "
                 "edge weights)",
                 (unsigned long long)format);
    }
    if (s == WH_OK && weights > 1000) {
        s = fail(r, WH_BAD_FORMAT, h->line, "ncon %llu is out of range 0..1000; correct it",
                 (unsigned long long)weights);
    }
    h->edge_weights = format % 10 == 1;
    h->skip = (format / 100 == 1) + (format / 10 % 10 == 1 ? weights : 0);
    return s == WH_OK ? check_vertex_count(r, h->line, h->n) : s;
}

static wh_status read_metis_line(reader *r, const metis_header *h, uint32_t u) {
    wh_status s = WH_OK;
    uint64_t dropped;
    for (uint64_t k = 0; s == WH_OK && k < h->skip; k++) {
        s = take_number(r, "a vertex size or weight", &dropped);
    }
    while (s == WH_OK && !ends_line(skip_blanks(r))) {
        uint32_t v = 0;
        s = take_vertex1(r, "neighbour", (uint32_t)h->n, &v);
        if (s == WH_OK && h->edge_weights) {
            s = take_number(r, "the weight of an edge", &dropped);
        }
        if (s == WH_OK) {
            s = add_entry(r, u, v, 0);
        }
    }
    next_line(r);
    return s;
}

static wh_status read_metis(reader *r) {
    metis_header h;
    memset(&h, 0, sizeof h);
    wh_status s = read_metis_header(r, &h);
    if (s != WH_OK) {
        return s;
    }
    r->arcs->n_vertices = (uint32_t)h.n;
    /* An empty line is a vertex without neighbours; lines that are missing at the
     * end are taken for such if no edge is missing. */
    uint32_t u = 0;
    while (s == WH_OK && u < h.n && peek(r) != END_OF_FILE) {
        if (peek(r) == '%') {
            next_line(r);
        } else {
            s = read_metis_line(r, &h, u);
            u++;
        }
    }
    const uint64_t arcs = r->arcs->n_arcs;
    if (s == WH_OK && u < h.n && arcs != 2 * h.m) {
        s = fail(r, WH_BAD_FORMAT, r->line,
                 "the file ends after %u of %llu vertices; it is cut off, or line %llu is wrong", u,
                 (unsigned long long)h.n, (unsigned long long)h.line);
    }
    if (s == WH_OK && skip_to_content(r, '%', 0) != END_OF_FILE) {
        s = fail(r, WH_BAD_FORMAT, r->line,
                 "a line more than the %llu vertices that line %llu announces; correct that line",
                 (unsigned long long)h.n, (unsigned long long)h.line);
    }
    if (s == WH_OK && (h.m > UINT64_MAX / 2 || arcs != 2 * h.m)) {
        s = fail(r, WH_BAD_FORMAT, h.line,
                 "%llu edges announced, but %llu neighbours listed; each edge is listed twice "
                 "and counts once",
                 (unsigned long long)h.m, (unsigned long long)arcs);
    }
    return s;
}

/* --- edge lists ----------------------------------------------------------------- */

static wh_status take_vertex0(reader *r, const char *wanted, uint32_t *vertex) {
    uint64_t v = 0;
    const uint64_t line = r->line;
    const wh_status s = take_number(r, wanted, &v);
    if (s != WH_OK) {
        return s;
    }
    if (v >= r->max_vertices) {
        return fail(r, WH_BAD_FORMAT, line,
                    "vertex %llu is too large, at most %u is allowed; renumber the vertices",
                    (unsigned long long)v, r->max_vertices - 1);
    }
    *vertex = (uint32_t)v;
    if (*vertex >= r->arcs->n_vertices) {
        r->arcs->n_vertices = *vertex + 1;
    }
    return WH_OK;
}

/* The third column; fractions of a second are dropped. */
static wh_status take_time(reader *r, int64_t *time) {
    double value;
    const uint64_t line = r->line;
    wh_status s = take_real(r, "a time", &value);
    if (s == WH_OK && !(value > -9.2e18 && value < 9.2e18)) {
        s = fail(r, WH_BAD_FORMAT, line, "a time out of range; write seconds");
    }
    *time = s == WH_OK ? (int64_t)value : 0;
    return s;
}

static wh_status read_edges(reader *r, int both) {
    wh_graph_arcs *a = r->arcs;
    int columns = 0;
    wh_status s = WH_OK;
    r->extra_blank = ',';
    while (s == WH_OK && skip_to_content(r, '#', '%') != END_OF_FILE) {
        const uint64_t line = r->line;
        uint32_t u = 0, v = 0;
        int64_t time = 0;
        s = take_vertex0(r, "a source vertex", &u);
        if (s == WH_OK) {
            s = take_vertex0(r, "a target vertex", &v);
        }
        const int have = s == WH_OK && !ends_line(skip_blanks(r)) ? 3 : 2;
        if (s == WH_OK && columns != 0 && columns != have) {
            s = fail(r, WH_BAD_FORMAT, line,
                     "%d columns, but %d in the lines before; give every edge a time or none", have,
                     columns);
        }
        columns = have;
        if (s == WH_OK && have == 3) {
            s = take_time(r, &time);
        }
        if (s == WH_OK) {
            s = end_line(r, "source, target and time");
        }
        if (s == WH_OK && a->n_arcs + 2 > r->room) {
            s = grow(r, columns == 3);
        }
        if (s == WH_OK) {
            const uint64_t first = a->n_arcs;
            s = add_entry(r, u, v, both);
            for (uint64_t i = first; s == WH_OK && columns == 3 && i < a->n_arcs; i++) {
                a->time[i] = time;
            }
        }
    }
    if (s == WH_OK && a->n_entries == 0) {
        s = fail(r, WH_BAD_FORMAT, r->line,
                 "no edges in the file; write one 'source target' a line");
    }
    return s;
}

/* --- the whole file --------------------------------------------------------------- */

static int has_extension(const char *path, size_t n, const char *extension) {
    const size_t k = strlen(extension);
    return n >= k && strncasecmp(path + (n - k), extension, k) == 0;
}

static wh_graph_format format_of(const char *path) {
    size_t n = strlen(path);
    if (has_extension(path, n, ".gz")) {
        n -= 3;
    }
    if (has_extension(path, n, ".mtx") || has_extension(path, n, ".mm")) {
        return WH_GRAPH_MATRIX_MARKET;
    }
    if (has_extension(path, n, ".graph") || has_extension(path, n, ".metis")) {
        return WH_GRAPH_METIS;
    }
    return WH_GRAPH_EDGE_LIST;
}

static wh_status read_content(reader *r, const char *path, const wh_graph_file_options *o) {
    static const char magic[] = "%%MatrixMarket";
    if (peek(r) == END_OF_FILE) {
        return fail(r, WH_BAD_FORMAT, 0, "the file is empty; write a graph into it");
    }
    r->arcs->format = o->format != WH_GRAPH_AUTO ? o->format : format_of(path);
    if (o->format == WH_GRAPH_AUTO && (size_t)(r->end - r->at) >= sizeof magic - 1 &&
        strncasecmp((const char *)r->at, magic, sizeof magic - 1) == 0) {
        r->arcs->format = WH_GRAPH_MATRIX_MARKET;
    }
    switch (r->arcs->format) {
    case WH_GRAPH_MATRIX_MARKET:
        return read_market(r);
    case WH_GRAPH_METIS:
        return read_metis(r);
    case WH_GRAPH_EDGE_LIST:
    case WH_GRAPH_AUTO:
        break;
    }
    return read_edges(r, o->undirected);
}

wh_status wh_graph_file_read(const char *path, const wh_graph_file_options *options,
                             wh_graph_arcs *arcs, wh_graph_file_error *error) {
    wh_graph_file_options o;
    reader r;
    memset(&o, 0, sizeof o);
    memset(&r, 0, sizeof r);
    memset(arcs, 0, sizeof *arcs);
    memset(error, 0, sizeof *error);
    if (options != NULL) {
        o = *options;
    }
    set_path(error, path);
    r.max_vertices = o.max_vertices != 0 ? o.max_vertices : WH_GRAPH_MAX_VERTICES;
    r.arcs = arcs;
    r.error = error;
    r.line = 1;
    r.extra_blank = ' ';
    r.buffer = malloc(BUFFER_BYTES);
    errno = 0;
    r.file = r.buffer != NULL ? gzopen(path, "rb") : NULL;
    wh_status s = WH_OK;
    if (r.buffer == NULL) {
        s = no_memory(&r);
    } else if (r.file == NULL) {
        s = fail(&r, WH_IO_ERROR, 0, "cannot be opened: %s",
                 errno != 0 ? strerror(errno) : "not enough memory");
    } else {
        (void)gzbuffer(r.file, BUFFER_BYTES);
        s = read_content(&r, path, &o);
        (void)gzclose(r.file);
    }
    free(r.buffer);
    /* A read error looks like the end of the file to the parsers. */
    s = error->status;
    if (s != WH_OK) {
        wh_graph_arcs_free(arcs);
    }
    return s;
}

void wh_graph_arcs_free(wh_graph_arcs *arcs) {
    free(arcs->from);
    free(arcs->to);
    free(arcs->time);
    memset(arcs, 0, sizeof *arcs);
}

/* --- adjacency lists ------------------------------------------------------------- */

/* start[k] = number of arcs i with key[i] < k, for k = 0..n_keys. */
static uint64_t *count_starts(uint32_t n_keys, const uint32_t *key, uint64_t n,
                              const uint32_t *keep) {
    uint64_t *start = calloc((size_t)n_keys + 1, sizeof *start);
    if (start == NULL) {
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (keep == NULL || keep[i] != 0) {
            start[(size_t)key[i] + 1]++;
        }
    }
    for (size_t k = 0; k < n_keys; k++) {
        start[k + 1] += start[k];
    }
    return start;
}

wh_status wh_graph_csr_build(wh_graph_csr *csr, uint32_t n_vertices, const uint32_t *from,
                             const uint32_t *to, uint64_t n, const uint32_t *keep) {
    memset(csr, 0, sizeof *csr);
    /* Stable sort by target, then by source: lists come out sorted. by_to[] and
     * csr->offset[] move forward as cursors; offset is shifted back at the end. */
    uint64_t *by_to = count_starts(n_vertices, to, n, keep);
    csr->offset = count_starts(n_vertices, from, n, keep);
    const uint64_t kept = csr->offset != NULL ? csr->offset[n_vertices] : 0;
    uint64_t *order = malloc(((size_t)kept + 1) * sizeof *order);
    csr->to = malloc(((size_t)kept + 1) * sizeof *csr->to);
    csr->n_vertices = n_vertices;
    csr->n_arcs = kept;
    if (by_to == NULL || csr->offset == NULL || order == NULL || csr->to == NULL) {
        free(by_to);
        free(order);
        wh_graph_csr_free(csr);
        return WH_OUT_OF_MEMORY;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (keep == NULL || keep[i] != 0) {
            order[by_to[to[i]]++] = i;
        }
    }
    for (uint64_t k = 0; k < kept; k++) {
        csr->to[csr->offset[from[order[k]]]++] = to[order[k]];
    }
    memmove(csr->offset + 1, csr->offset, (size_t)n_vertices * sizeof *csr->offset);
    csr->offset[0] = 0;
    free(by_to);
    free(order);
    return WH_OK;
}

void wh_graph_csr_free(wh_graph_csr *csr) {
    free(csr->offset);
    free(csr->to);
    memset(csr, 0, sizeof *csr);
}
