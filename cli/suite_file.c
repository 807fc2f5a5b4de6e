/* suite_file.c: the results of a suite: a header, and the rows of whole cells. A file is gone on
 * with after all that is not whole was taken out of it, by a new file in its place. */
#define _DEFAULT_SOURCE /* fileno, ftruncate */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/suite.h"

static int write_line(FILE *file, const json_t *object) {
    const int e = json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(7));
    return e == 0 && fputc('\n', file) != EOF;
}

/* "alloc/cell" of a row; 0: it has none. */
static int key_of(const json_t *row, char *key, size_t size) {
    const char *alloc = json_string_value(json_object_get(row, "alloc"));
    const char *cell = json_string_value(json_object_get(row, "cell"));
    return alloc != NULL && cell != NULL &&
           (size_t)snprintf(key, size, "%s/%s", alloc, cell) < size;
}

static json_int_t count_of(const json_t *counts, const char *key) {
    return json_integer_value(json_object_get(counts, key));
}

/* --- reading --------------------------------------------------------------------------------- */

/* The objects of a file; a last line without an end is no line yet, but if it is the only one, it
 * has to be the begin of a header: else the file is not ours. NULL: error says why. */
static json_t *read_objects(FILE *file, const char *path, char *error, size_t size) {
    json_t *all = json_array();
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    size_t number = 1;
    for (; (length = getline(&line, &room, file)) > 0; number++) {
        const int whole = line[length - 1] == '\n';
        if (!whole && (number > 1 || line[0] == '{')) {
            break;
        }
        json_t *object = whole ? json_loads(line, 0, NULL) : NULL;
        if (!json_is_object(object) || json_array_append_new(all, object) != 0) {
            (void)snprintf(error, size, "cannot go on with '%s': line %zu is no JSON object", path,
                           number);
            json_decref(object);
            json_decref(all);
            all = NULL;
            break;
        }
    }
    free(line);
    return all;
}

/* Rows of each cell, of those that are whole; 0: a row is not one of a suite. */
static int count_rows(const json_t *objects, json_t *counts) {
    json_t *seen = json_object();
    char key[160];
    size_t i = 0;
    int good = 1;
    const json_t *row = NULL;
    json_array_foreach(objects, i, row) {
        if (i > 0) {
            good &= key_of(row, key, sizeof key);
            const json_int_t n = good ? count_of(seen, key) + 1 : 0;
            (void)json_object_set_new(seen, key, json_integer(n));
            if (n == json_integer_value(json_object_get(row, "cell_rows"))) {
                (void)json_object_set_new(counts, key, json_integer(n));
            }
        }
    }
    json_decref(seen);
    return good;
}

/* A new file beside it with the header and whole cells takes its place. */
static int rewrite(const suite_file *f, const json_t *objects, const char *path) {
    char beside[4096];
    size_t i = 0;
    const json_t *row = NULL;
    if ((size_t)snprintf(beside, sizeof beside, "%s.part", path) >= sizeof beside) {
        return 0;
    }
    FILE *file = fopen(beside, "w");
    int good = file != NULL;
    json_array_foreach(objects, i, row) {
        char key[160];
        if (good && (i == 0 || (key_of(row, key, sizeof key) && count_of(f->counts, key) != 0))) {
            good = write_line(file, row);
        }
    }
    good = file != NULL && fclose(file) == 0 && good && rename(beside, path) == 0;
    if (file != NULL && !good) {
        (void)remove(beside);
    }
    return good;
}

int suite_file_read(suite_file *f, const char *path, char *error, size_t size) {
    memset(f, 0, sizeof *f);
    f->counts = json_object();
    struct stat is;
    if (path != NULL && stat(path, &is) == 0 && !S_ISREG(is.st_mode)) { /* it may have no end */
        (void)snprintf(error, size, "cannot go on with '%s': it is no regular file", path);
        return 0;
    }
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (path == NULL || (file == NULL && errno == ENOENT)) {
        return 1;
    }
    if (file == NULL) {
        (void)snprintf(error, size, "cannot read '%s': %s", path, strerror(errno));
        return 0;
    }
    f->objects = read_objects(file, path, error, size);
    (void)fclose(file);
    f->header = json_array_get(f->objects, 0);
    if (f->header != NULL &&
        (json_object_get(f->header, "suite") == NULL || !count_rows(f->objects, f->counts))) {
        (void)snprintf(error, size, "cannot go on with '%s': it is not of a suite", path);
        return 0;
    }
    return f->objects != NULL;
}

/* --- writing --------------------------------------------------------------------------------- */

int suite_file_open(suite_file *f, const char *path) {
    if (path == NULL) {
        return 1;
    }
    if (f->header != NULL && !rewrite(f, f->objects, path)) {
        return 0;
    }
    f->file = fopen(path, f->header != NULL ? "a" : "w");
    return f->file != NULL;
}

int suite_file_has(const suite_file *f, const char *alloc, const char *cell) {
    char key[160];
    (void)snprintf(key, sizeof key, "%s/%s", alloc, cell);
    return count_of(f->counts, key) != 0;
}

int suite_file_header(suite_file *f, const json_t *header) {
    return f->file == NULL || (write_line(f->file, header) && fflush(f->file) == 0);
}

int suite_file_add(suite_file *f, json_t *rows, const char *cell) {
    size_t i = 0;
    json_t *row = NULL;
    int good = 1;
    json_array_foreach(rows, i, row) {
        good &= json_object_set_new(row, "cell", json_string(cell)) == 0;
        good &= json_object_set_new(row, "cell_rows",
                                    json_integer((json_int_t)json_array_size(rows))) == 0;
        good = good && (f->file == NULL || write_line(f->file, row));
    }
    return good && (f->file == NULL || fflush(f->file) == 0);
}

int suite_file_close(suite_file *f) {
    const int good = f->file == NULL || fclose(f->file) == 0;
    json_decref(f->objects);
    json_decref(f->counts);
    memset(f, 0, sizeof *f);
    return good;
}
