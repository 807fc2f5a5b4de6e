/* last_error.c: why a call of this host thread failed last, and why one to CUDA did. */
#include "last_error.h"

#include "device_internal.h"

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

/* In a file of the host, so that a CUDA program links to a library without CUDA and is told
 * NO_DEVICE. */
wh_status wh_device_note_cuda(wh_device *device, int cuda_error, const char *what,
                              const char *text) {
    enum { MEMORY_ALLOCATION = 2 }; /* cudaErrorMemoryAllocation */
    if (cuda_error == 0) {
        return WH_OK;
    }
    if (device != NULL) {
        (void)snprintf(device->error, sizeof device->error, "%s: %s", what, text);
    }
    return cuda_error == MEMORY_ALLOCATION ? WH_OUT_OF_MEMORY : WH_DEVICE_ERROR;
}
