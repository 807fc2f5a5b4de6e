/* text.c: how numbers and names are shown. */
#include <stdio.h>

#include "cli/cli.h"

const char *cli_name_text(const char *name, char *text, size_t room) {
    size_t n = 0;
    for (; *name != '\0' && n + 5 < room; name++) {
        const unsigned char c = (unsigned char)*name;
        const int plain = c >= ' ' && c < 0x7f && c != '\\';
        n += (size_t)snprintf(text + n, room - n, plain ? "%c" : "\\x%02x", c);
    }
    text[n] = '\0';
    return text;
}

const char *cli_bytes_text(uint64_t bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t unit = 0;
    while (v >= 1024 && unit < 4) {
        v /= 1024;
        unit++;
    }
    (void)snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", v, units[unit]);
    return text;
}
