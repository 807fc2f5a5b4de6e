/* parse.c: numbers and lists on the command line. */
#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cli_complain(const char *format, ...) {
    char line[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    (void)fprintf(stderr, "warpheap: %s\n", line); /* at once: others may write there, too */
    va_end(args);
    return CLI_USAGE;
}

int cli_parse_number(const char *text, uint64_t *value) {
    uint64_t v = 0;
    const char *p = text;
    unsigned shift = 0;
    while (*p >= '0' && *p <= '9') {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            return 0;
        }
        v = v * 10 + digit;
        p++;
    }
    if (p == text) {
        return 0;
    }
    switch (*p) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    default:
        break;
    }
    p += shift != 0 ? 1 : 0;
    if (*p != '\0' || v > UINT64_MAX >> shift) {
        return 0;
    }
    *value = v << shift;
    return 1;
}

int cli_parse_decimal(const char *text, double *value) {
    char *end = NULL;
    if (*text == '\0' || text[strspn(text, "0123456789.")] != '\0') {
        return 0; /* strtod takes more: spaces, signs, exponents, names */
    }
    const double v = strtod(text, &end);
    if (*end != '\0' || v > DBL_MAX) {
        return 0;
    }
    *value = v;
    return 1;
}

int cli_add_name(cli_names *list, const char *text, size_t length) {
    char **v = realloc(list->v, (list->n + 1) * sizeof *v);
    if (v == NULL) {
        return 0;
    }
    list->v = v;
    list->v[list->n] = malloc(length + 1);
    if (list->v[list->n] == NULL) {
        return 0;
    }
    memcpy(list->v[list->n], text, length);
    list->v[list->n][length] = '\0';
    list->n++;
    return 1;
}

int cli_add_names(cli_names *list, const char *text) {
    for (const char *p = text;; p++) {
        const size_t length = strcspn(p, ",");
        if (length == 0 || !cli_add_name(list, p, length)) {
            return 0;
        }
        p += length;
        if (*p == '\0') {
            return 1;
        }
    }
}

int cli_add_numbers(cli_numbers *list, const char *text) {
    for (const char *p = text;; p++) {
        const size_t length = strcspn(p, ",");
        (void)snprintf(list->bad, sizeof list->bad, "%.*s", (int)(length < 60 ? length : 60), p);
        uint64_t value = 0;
        uint64_t *v = realloc(list->v, (list->n + 1) * sizeof *v);
        if (v == NULL) {
            return 0;
        }
        list->v = v;
        if (!cli_parse_number(list->bad, &value) || value == 0) {
            return 0;
        }
        list->v[list->n++] = value;
        p += length;
        if (*p == '\0') {
            return 1;
        }
    }
}

void cli_free_names(cli_names *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i]);
    }
    free(list->v);
    list->v = NULL;
    list->n = 0;
}

void cli_free_numbers(cli_numbers *list) {
    free(list->v);
    list->v = NULL;
    list->n = 0;
}
