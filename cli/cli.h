/* cli.h: what the files of the program `warpheap` share. */
#ifndef WHI_CLI_CLI_H
#define WHI_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

/* Exit status of a request that cannot be understood or run. */
#define CLI_USAGE 2

/* Each gets its own argv: argv[0] is shown in its messages. Returns the exit status. */
int cli_bench(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_registers(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_view(int argc, char **argv);
int cli_diff(int argc, char **argv);

/* A name as it may be printed, cut to fit: what a terminal could take for an order is shown as its
 * number. Both return text. */
const char *cli_name_text(const char *name, char *text, size_t room);
/* "1.5 MiB". */
const char *cli_bytes_text(uint64_t bytes, char text[32]);

/* A whole number, with K, M or G for 2^10, 2^20, 2^30. 0 if it is malformed or does not
 * fit. */
int cli_parse_number(const char *text, uint64_t *value);

/* Digits, and at most one point among them. 0 if it is malformed or does not fit. */
int cli_parse_decimal(const char *text, double *value);

/* Lists on the command line, separated by commas. Adding returns 0 on a malformed
 * entry; of numbers, `bad` then holds it. */
typedef struct cli_names {
    char **v;
    size_t n;
} cli_names;
typedef struct cli_numbers {
    uint64_t *v;
    size_t n;
    char bad[64]; /* the entry looked at last, cut to fit */
} cli_numbers;

int cli_add_names(cli_names *list, const char *text);
int cli_add_name(cli_names *list, const char *text, size_t length);
int cli_add_numbers(cli_numbers *list, const char *text);
void cli_free_names(cli_names *list);
void cli_free_numbers(cli_numbers *list);

/* "warpheap: " and one line to stderr; returns CLI_USAGE. */
int cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
