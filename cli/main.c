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

static const char usage[] =
    "Usage: warpheap COMMAND [OPTION...]\n"
    "\n"
    "  bench      measure allocators on a GPU or the simulated device\n"
    "  info       list devices and allocators\n"
    "  registers  show what malloc and free cost a kernel in registers (CUDA)\n"
    "  top        show how full the heap of a running program is\n"
    "  help       this text\n"
    "\n"
    "warpheap COMMAND --help shows a command's options. --version shows the build.\n";

static int show(const char *text) {
    (void)fputs(text, stdout);
    return 0;
}

/* Runs at exit, as argp ends the program itself after --help. */
static void check_output(void) {
    if (ferror(stdout) != 0 || fflush(stdout) != 0) {
        (void)cli_complain("cannot write to standard output");
        _exit(1);
    }
}

int main(int argc, char **argv) {
    if (atexit(check_output) != 0) {
        return 1;
    }
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "bench") == 0) {
        argv[1] = (char *)"warpheap bench";
        return cli_bench(argc - 1, argv + 1);
    }
    if (strcmp(command, "info") == 0) {
        argv[1] = (char *)"warpheap info";
        return cli_info(argc - 1, argv + 1);
    }
    if (strcmp(command, "registers") == 0) {
        argv[1] = (char *)"warpheap registers";
        return cli_registers(argc - 1, argv + 1);
    }
    if (strcmp(command, "top") == 0) {
        argv[1] = (char *)"warpheap top";
        return cli_top(argc - 1, argv + 1);
    }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0 || strcmp(command, "-?") == 0) {
        return show(usage);
    }
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        return show("warpheap " VERSION ", build " WH_BUILD_COMMIT "\n" WH_BUILD_COMPILER "\n");
    }
    if (command[0] == '\0') {
        return cli_complain("no command given; known: bench, info, registers, top, help");
    }
    return cli_complain("unknown command '%s'; known: bench, info, registers, top, help", command);
}
