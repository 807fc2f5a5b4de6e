/* ply.c: reads the header of a PLY file, and walks over the data that it announces. */
#include "workload/mesh/ply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/last_error.h"

enum { MOST_ELEMENTS = 16, MOST_PROPERTIES = 256, NAME_BYTES = 32, LINE_BYTES = 256 };

typedef struct type {
    const char *name;
    uint32_t bytes;
    char kind; /* i, u, f: a whole number with or without a sign, or a real one */
} type;

static const type types[] = {
    {"char", 1, 'i'},  {"uchar", 1, 'u'},  {"short", 2, 'i'},   {"ushort", 2, 'u'},
    {"int", 4, 'i'},   {"uint", 4, 'u'},   {"float", 4, 'f'},   {"double", 8, 'f'},
    {"int8", 1, 'i'},  {"uint8", 1, 'u'},  {"int16", 2, 'i'},   {"uint16", 2, 'u'},
    {"int32", 4, 'i'}, {"uint32", 4, 'u'}, {"float32", 4, 'f'}, {"float64", 8, 'f'},
};

typedef struct property {
    const type *value;
    const type *length; /* NULL: it is no list */
    int is_corners;     /* a list of vertices */
} property;

typedef struct element {
    uint64_t count;
    uint32_t first, end; /* of its properties */
    int is_vertex, is_face;
} element;

typedef struct ply {
    const char *at, *end; /* what is yet to be read */
    const char *path;
    int is_text, is_big_endian;
    element element[MOST_ELEMENTS];
    property property[MOST_PROPERTIES];
    uint32_t n_elements, n_properties;
    uint32_t axes; /* bit k: vertices have x, y, z */
    uint64_t n_vertices, n_polygons;
} ply;

static wh_status bad(const ply *p, const char *what) {
    return whi_refuse(WH_BAD_FORMAT, "%s: PLY: %s", p->path, what);
}

/* --- the header ------------------------------------------------------------------------------ */

/* The next line, without its end, and cut if it is longer than can matter; 0: there is none. */
static int take_line(ply *p, char line[LINE_BYTES]) {
    const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    if (end == NULL) {
        return 0;
    }
    size_t n = (size_t)(end - p->at);
    n = n > 0 && p->at[n - 1] == '\r' ? n - 1 : n;
    n = n < LINE_BYTES ? n : LINE_BYTES - 1;
    memcpy(line, p->at, n);
    line[n] = '\0';
    p->at = end + 1;
    return 1;
}

static const type *type_named(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

static wh_status add_element(ply *p, const char *name, uint64_t count) {
    if (p->n_elements == MOST_ELEMENTS) {
        return bad(p, "too many elements in the header");
    }
    element *e = &p->element[p->n_elements++];
    e->count = count;
    e->first = e->end = p->n_properties;
    e->is_vertex = strcmp(name, "vertex") == 0;
    e->is_face = strcmp(name, "face") == 0;
    p->n_vertices = e->is_vertex ? count : p->n_vertices;
    return WH_OK;
}

/* length: NULL or the name of a type. */
static wh_status add_property(ply *p, const char *length, const char *value, const char *name) {
    static const char *const axis[] = {"x", "y", "z"};
    if (p->n_elements == 0 || p->n_properties == MOST_PROPERTIES) {
        return bad(p, "a property without an element, or too many of them");
    }
    element *e = &p->element[p->n_elements - 1];
    property *q = &p->property[p->n_properties++];
    e->end = p->n_properties;
    q->value = type_named(value);
    q->length = length != NULL ? type_named(length) : NULL;
    q->is_corners = q->length != NULL && e->is_face &&
                    (strcmp(name, "vertex_indices") == 0 || strcmp(name, "vertex_index") == 0);
    for (uint32_t k = 0; k < 3; k++) {
        p->axes |= e->is_vertex && strcmp(name, axis[k]) == 0 ? 1u << k : 0;
    }
    if (q->value == NULL || (length != NULL && (q->length == NULL || q->length->kind == 'f'))) {
        return bad(p, "a property of an unknown type");
    }
    return WH_OK;
}

static wh_status read_line(ply *p, const char *line) {
    char a[NAME_BYTES], b[NAME_BYTES], c[NAME_BYTES];
    unsigned long long count = 0;
    if (sscanf(line, "format %31s", a) == 1) {
        p->is_text = strcmp(a, "ascii") == 0;
        p->is_big_endian = strcmp(a, "binary_big_endian") == 0;
        if (!p->is_text && !p->is_big_endian && strcmp(a, "binary_little_endian") != 0) {
            return bad(p, "an unknown format");
        }
        return WH_OK;
    }
    if (sscanf(line, "element %31s %llu", a, &count) == 2) {
        return add_element(p, a, count);
    }
    if (sscanf(line, "property list %31s %31s %31s", a, b, c) == 3) {
        return add_property(p, a, b, c);
    }
    if (sscanf(line, "property %31s %31s", a, b) == 2) {
        return add_property(p, NULL, a, b);
    }
    return strncmp(line, "comment", 7) == 0 || strncmp(line, "obj_info", 8) == 0 || line[0] == '\0'
               ? WH_OK
               : bad(p, "a line of the header is not understood");
}

static wh_status read_header(ply *p) {
    char line[LINE_BYTES];
    wh_status s = WH_OK;
    (void)take_line(p, line);
    while (s == WH_OK) {
        if (!take_line(p, line)) {
            return bad(p, "the header has no end; fetch the file again");
        }
        if (strcmp(line, "end_header") == 0) {
            break;
        }
        s = read_line(p, line);
    }
    if (s == WH_OK && p->axes != 7) {
        s = bad(p, "vertices without x, y or z");
    }
    return s;
}

/* --- the data ---------------------------------------------------------------------------------
 */

static int is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int take_word(ply *p, double *value) {
    char word[64];
    size_t n = 0;
    while (p->at != p->end && is_blank(*p->at)) {
        p->at++;
    }
    for (; p->at != p->end && !is_blank(*p->at); p->at++) {
        word[n] = *p->at;
        n += n < sizeof word - 1;
    }
    char *end = word;
    word[n] = '\0';
    *value = strtod(word, &end);
    return n != 0 && *end == '\0';
}

/* Bits of a number, the lowest byte first in the file, or the highest. */
static uint64_t bits_of(const ply *p, uint32_t bytes) {
    uint64_t bits = 0;
    for (uint32_t k = 0; k < bytes; k++) {
        const uint32_t at = p->is_big_endian ? k : bytes - 1 - k;
        bits = bits << 8 | (unsigned char)p->at[at];
    }
    return bits;
}

/* One number. Real ones in binary files are not looked at: 0. 0: there is none. */
static int take_number(ply *p, const type *t, double *value) {
    if (p->is_text) {
        return take_word(p, value);
    }
    if ((size_t)(p->end - p->at) < t->bytes) {
        return 0;
    }
    *value = 0;
    if (t->kind != 'f') {
        const double range = (double)(1ull << 8 * t->bytes);
        *value = (double)bits_of(p, t->bytes);
        *value -= t->kind == 'i' && *value >= range / 2 ? range : 0;
    }
    p->at += t->bytes;
    return 1;
}

static wh_status cut_off(const ply *p) {
    return bad(p, "the data ends before what the header announces, or is no number; fetch the file "
                  "again");
}

static wh_status take_list(ply *p, const property *q) {
    double length = 0, value = 0;
    if (!take_number(p, q->length, &length) || !(length >= 0)) {
        return cut_off(p);
    }
    p->n_polygons += length >= 3 ? 1 : 0;
    for (double i = 0; i < length; i++) {
        if (!take_number(p, q->value, &value)) {
            return cut_off(p);
        }
        if (q->is_corners && !(value >= 0 && value < (double)p->n_vertices)) {
            return bad(p, "a face has a vertex that is not there");
        }
    }
    return WH_OK;
}

static wh_status take_entry(ply *p, const element *e) {
    wh_status s = WH_OK;
    double value = 0;
    for (uint32_t i = e->first; s == WH_OK && i < e->end; i++) {
        const property *q = &p->property[i];
        if (q->length != NULL) {
            s = take_list(p, q);
        } else if (!take_number(p, q->value, &value)) {
            s = cut_off(p);
        }
    }
    return s;
}

int whi_is_ply(const char *bytes, size_t n) {
    return n >= 4 && (memcmp(bytes, "ply", 3) == 0 || memcmp(bytes, "PLY", 3) == 0) &&
           is_blank(bytes[3]);
}

wh_status whi_ply_check(const char *bytes, size_t n, const char *path) {
    ply p;
    memset(&p, 0, sizeof p);
    p.at = bytes;
    p.end = bytes + n;
    p.path = path;
    wh_status s = read_header(&p);
    for (uint32_t k = 0; s == WH_OK && k < p.n_elements; k++) {
        const element *e = &p.element[k];
        if (e->first == e->end && e->count != 0) {
            s = bad(&p, "an element has no properties");
        }
        for (uint64_t i = 0; s == WH_OK && i < e->count; i++) {
            s = take_entry(&p, e);
        }
    }
    return s == WH_OK && p.n_polygons == 0 ? bad(&p, "no triangles in the file") : s;
}
