/* last_error.c: why a call of this host thread failed last. */
#include "last_error.h"

#include <stdarg.h>
#include <stdio.h>

/* Small, since the thread-local memory of a library that is loaded late is scarce. */
static _Thread_local char last[320];

wh_status whi_refuse(wh_status status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    (void)vsnprintf(last, sizeof last, format, values);
    va_end(values);
    return status;
}

void whi_forget_error(void) {
    last[0] = '\0';
}

void wh_note_host_call(const char *line) {
    (void)whi_refuse(WH_OK, "%s", line);
}

const char *wh_last_error_text(void) {
    return last;
}
