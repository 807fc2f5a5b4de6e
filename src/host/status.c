/* status.c: readable names of status codes. */
#include "warpheap/types.h"

typedef struct status_entry {
    const char *name;
    const char *text;
} status_entry;

static const status_entry entries[WH_STATUS_COUNT] = {
#define ENTRY(name, text) {"WH_" #name, text},
    WH_STATUS_LIST(ENTRY)
#undef ENTRY
};

static const status_entry *find(wh_status status) {
    static const status_entry unknown = {"WH_?", "not a status code"};
    return (unsigned)status < (unsigned)WH_STATUS_COUNT ? &entries[status] : &unknown;
}

const char *wh_status_name(wh_status status) {
    return find(status)->name;
}

const char *wh_status_text(wh_status status) {
    return find(status)->text;
}

uint32_t wh_version(void) {
    return WH_VERSION;
}
