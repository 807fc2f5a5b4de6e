/* last_error.c: why a call of this host thread failed last. Literals alone, so nothing is copied
 * and nothing can be cut off. */
#include "last_error.h"

#include "warpheap/types.h"

static _Thread_local const char *last = "";

void whi_note_error(const char *text) {
    last = text;
}

void wh_note_host_call(const char *line) {
    whi_note_error(line);
}

const char *wh_last_error_text(void) {
    return last;
}
