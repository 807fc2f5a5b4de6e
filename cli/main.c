/* main.c: the program `warpheap`: picks the subcommand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_info.h"
#include "cli/cli.h"
#include "warpheap/detail/version.h"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define VERSION TEXT(WH_VERSION_MAJOR) "." TEXT(WH_VERSION_MINOR) "." TEXT(WH_VERSION_PATCH)

#define KNOWN "bench, report, info, registers, top, view, diff, help"

static const char usage[] =
    "Usage: warpheap COMMAND [OPTION...]\n"
    "\n"
    "  bench      measure allocators on a GPU or the simulated device\n"
    "  report     make a page of results of bench\n"
    "  info       list devices and allocators\n"
    "  registers  show what malloc and free cost a kernel in registers (CUDA)\n"
    "  top        show how full the heap of a running program is\n"
    "  view       draw a snapshot of a heap as a page\n"
    "  diff       list blocks that a later snapshot has, and an earlier one not\n"
    "  help       this text\n"
    "\n"
    "warpheap COMMAND --help shows a command's options. --version shows the build.\n";

static int show(const char *text) {
    (void)fputs(text, stdout);
    return 0;
}

static int unwritten = 1; /* the exit status if standard output cannot be written */

/* Runs at exit, as argp ends the program itself after --help. */
static void check_output(void) {
    if (ferror(stdout) != 0 || fflush(stdout) != 0) {
        (void)cli_complain("cannot write to standard output");
        _exit(unwritten);
    }
}

int main(int argc, char **argv) {
    if (atexit(check_output) != 0) {
        return 1;
    }
    static const struct {
        const char *name, *shown;
        int (*run)(int argc, char **argv);
    } commands[] = {
        {"bench", "warpheap bench", cli_bench}, {"report", "warpheap report", cli_report},
        {"info", "warpheap info", cli_info},    {"registers", "warpheap registers", cli_registers},
        {"top", "warpheap top", cli_top},       {"view", "warpheap view", cli_view},
        {"diff", "warpheap diff", cli_diff},
    };
    const char *command = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(command, commands[i].name) == 0) {
            argv[1] = (char *)commands[i].shown;
            unwritten = commands[i].run == cli_diff ? CLI_USAGE : 1; /* 1 of diff: new blocks */
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0 || strcmp(command, "-?") == 0) {
        return show(usage);
    }
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        return show("warpheap " VERSION ", build " WH_BUILD_COMMIT "\n" WH_BUILD_COMPILER "\n");
    }
    if (command[0] == '\0') {
        return cli_complain("no command given; known: " KNOWN);
    }
    return cli_complain("unknown command '%s'; known: " KNOWN, command);
}
