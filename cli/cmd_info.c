/* cmd_info.c: `warpheap info`: devices, and allocators with their capabilities. */
#define _DEFAULT_SOURCE /* argp with a strict C standard */

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "warpheap/heap.h"
#include "warpheap/options.h"

static void show_device(const char *spec) {
    wh_device *device = NULL;
    const wh_status s = wh_device_open(&device, spec, NULL);
    if (s != WH_OK) {
        (void)printf("  %-8s %s\n", spec, wh_status_text(s));
        return;
    }
    const wh_device_info *info = wh_device_get_info(device);
    (void)printf("  %-8s %s, %u SMs, %.1f GiB, %s\n", spec, info->name, info->n_sms,
                 (double)info->memory_bytes / (double)((uint64_t)1 << 30), info->driver);
    wh_device_close(device);
}

static void show_amount(char *text, size_t size, uint64_t v) {
    if (v == UINT64_MAX) {
        (void)snprintf(text, size, "heap");
    } else if (v >= 1u << 20 && v % (1u << 20) == 0) {
        (void)snprintf(text, size, "%lluM", (unsigned long long)(v >> 20));
    } else {
        (void)snprintf(text, size, "%llu", (unsigned long long)v);
    }
}

static const struct capability {
    uint32_t bit;
    const char *text, *meaning;
} capabilities[] = {
#define CAP(bit, name, text, meaning) {1u << bit, text, meaning},
    WH_CAP_LIST(CAP)
#undef CAP
};

#define N_CAPABILITIES (sizeof capabilities / sizeof *capabilities)

/* One column a capability, headed by a letter that the legend below explains. */
static void show_allocators(void) {
    const wh_allocator_info *info = wh_allocator_find(NULL);
    (void)printf("Allocators (default: %s)\n  %-12s", info != NULL ? info->name : "none", "");
    for (size_t c = 0; c < N_CAPABILITIES; c++) {
        (void)printf(" %c", (int)('a' + c));
    }
    (void)printf("  %5s %8s  %s\n", "align", "max size", "what, source");
    for (uint32_t i = 0; (info = wh_allocator_at(i)) != NULL; i++) {
        char align[32];
        char most[32];
        show_amount(align, sizeof align, info->max_align);
        show_amount(most, sizeof most, info->max_size);
        (void)printf("  %-12s", info->name);
        for (size_t c = 0; c < N_CAPABILITIES; c++) {
            (void)printf(" %c", (info->caps & capabilities[c].bit) != 0 ? 'x' : '.');
        }
        (void)printf("  %5s %8s  %s; %s\n", align, most, info->title, info->source);
    }
    for (size_t c = 0; c < N_CAPABILITIES; c++) {
        (void)printf("  %c  %-12s %s\n", (int)('a' + c), capabilities[c].text,
                     capabilities[c].meaning);
    }
}

static void show_options(void) {
    const wh_option_info *option = NULL;
    (void)printf("\nOptions of heaps (bench --option FAMILY.NAME=N)\n");
    for (uint32_t i = 0; (option = wh_option_at(i)) != NULL; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s.%s", option->family, option->name);
        (void)printf("  %-28s %s\n", name, option->meaning);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    if (key == ARGP_KEY_ARG) {
        *(int *)state->input = cli_complain("info takes no argument '%s'", arg);
        return EINVAL;
    }
    return ARGP_ERR_UNKNOWN;
}

int cli_info(int argc, char **argv) {
    static const struct argp argp = {
        NULL, parse, NULL, "Lists devices, allocators with what they can do, and their options.",
        NULL, NULL,  NULL};
    int status = 0;
    argp_err_exit_status = CLI_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &status) != 0) {
        return status;
    }
    (void)printf("Devices\n");
    show_device("sim");
    for (uint32_t i = 0; i < wh_device_cuda_count(); i++) {
        char spec[32];
        (void)snprintf(spec, sizeof spec, "cuda:%u", i);
        show_device(spec);
    }
    if (wh_device_cuda_count() == 0) {
        (void)printf("  %-8s %s\n", "cuda",
                     WH_HAVE_CUDA ? "no usable GPU" : "support is not built in");
    }
    (void)printf("\n");
    show_allocators();
    show_options();
    return 0;
}
