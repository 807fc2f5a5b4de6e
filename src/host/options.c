/* options.c: the options of the allocator families, by name and as heaps get them. */
#include "options_internal.h"

#include <stdio.h>
#include <string.h>

#include "last_error.h"

#define FITS(family, name, meaning)                                                \
    _Static_assert(offsetof(wh_##family##_options, name) < sizeof(wh_any_options), \
                   "WH_OPTIONS_MOST is too small");
WH_OPTION_LIST(FITS)

static const wh_option_info all[] = {
#define INFO(family, name, meaning) {#family, #name, meaning},
    WH_OPTION_LIST(INFO)
#undef INFO
};
#define N_OPTIONS ((uint32_t)(sizeof all / sizeof *all))

const wh_option_info *wh_option_at(uint32_t index) {
    return index < N_OPTIONS ? &all[index] : NULL;
}

/* sizeof the struct of a family; 0: it has no options. */
static uint64_t bytes_of(const char *family) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < N_OPTIONS; i++) {
        n += strcmp(all[i].family, family) == 0;
    }
    return n != 0 ? sizeof(wh_options_head) + n * sizeof(uint64_t) : 0;
}

wh_status wh_options_set(wh_any_options *options, const char *name, uint64_t value) {
    whi_forget_error();
    if (options == NULL || name == NULL) {
        return WH_BAD_ARGUMENT;
    }
    uint32_t place = 0; /* among the options of its family */
    for (uint32_t i = 0; i < N_OPTIONS; i++) {
        const char *family = all[i].family;
        const size_t length = strlen(family);
        place = i != 0 && strcmp(family, all[i - 1].family) == 0 ? place + 1 : 0;
        if (strncmp(name, family, length) != 0 || name[length] != '.' ||
            strcmp(name + length + 1, all[i].name) != 0) {
            continue;
        }
        if (options->head.family != NULL && strcmp(options->head.family, family) != 0) {
            return whi_refuse(WH_BAD_ARGUMENT,
                              "'%.40s' is no option of '%.30s', which this struct "
                              "is for",
                              name, options->head.family);
        }
        options->head.family = family;
        options->head.struct_bytes = bytes_of(family);
        options->values[place] = value;
        return WH_OK;
    }
    return whi_refuse(WH_BAD_ARGUMENT,
                      "there is no option '%.60s' (they are <family>.<name>, as `warpheap info` "
                      "lists them)",
                      name);
}

wh_status whi_options_read(wh_any_options *to, const wh_options_head *from,
                           const wh_allocator_info *info) {
    const uint64_t bytes = bytes_of(info->family);
    memset(to, 0, sizeof *to);
    to->head.family = info->family;
    to->head.struct_bytes = bytes;
    if (from == NULL) {
        return WH_OK;
    }
    if (from->family == NULL) {
        return whi_refuse(WH_BAD_ARGUMENT, "wh_heap_options.options names no family: begin with an "
                                           "initialiser such as WH_TESSERA_OPTIONS");
    }
    if (strcmp(from->family, info->family) != 0) {
        return whi_refuse(
            WH_BAD_ARGUMENT,
            "wh_heap_options.options are of the family '%.30s', the allocator '%s' is "
            "of the family '%s'%s",
            from->family, info->name, info->family, bytes == 0 ? ", which has no options" : "");
    }
    if (from->struct_bytes < sizeof *from || from->struct_bytes > bytes ||
        from->struct_bytes % sizeof(uint64_t) != 0) {
        return whi_refuse(
            WH_BAD_ARGUMENT,
            "a wh_%s_options of %llu bytes is none that this library knows (its own "
            "has %llu): the calling code has other headers, or did not begin with the "
            "initialiser",
            info->family, (unsigned long long)from->struct_bytes, (unsigned long long)bytes);
    }
    memcpy(to, from, (size_t)from->struct_bytes);
    to->head.struct_bytes = bytes;
    return WH_OK;
}

uint64_t whi_option_value(const wh_any_options *options, const char *name) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < N_OPTIONS; i++) {
        if (strcmp(all[i].family, options->head.family) == 0) {
            if (strcmp(all[i].name, name) == 0) {
                return options->values[place];
            }
            place++;
        }
    }
    return 0;
}

void whi_options_text(const wh_any_options *options, char *text, size_t room) {
    size_t used = 0;
    uint32_t place = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < N_OPTIONS && used < room; i++) {
        if (strcmp(all[i].family, options->head.family) != 0) {
            continue;
        }
        const uint64_t value = options->values[place++];
        if (value != 0) {
            used +=
                (size_t)snprintf(text + used, room - used, "%s%s.%s=%llu", used != 0 ? ", " : "",
                                 all[i].family, all[i].name, (unsigned long long)value);
        }
    }
}
