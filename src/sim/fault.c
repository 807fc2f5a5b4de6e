/* fault.c: which planted fault (WH_PLANT in simt.h) is active. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* strnlen */
#endif

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "warpheap/simt.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char planted[64];

static void set(const char *tag) {
    const size_t n = tag != NULL ? strnlen(tag, sizeof planted - 1) : 0;
    memcpy(planted, tag != NULL ? tag : "", n);
    planted[n] = '\0';
}

static void set_from_environment(void) {
    set(getenv("WH_FAULT"));
}

void wh_fault_plant(const char *tag) {
    (void)pthread_once(&once, set_from_environment);
    set(tag);
}

int wh_fault_planted(const char *tag) {
    (void)pthread_once(&once, set_from_environment);
    return planted[0] != '\0' && strcmp(planted, tag) == 0;
}
