/* sanitizers.c: what the tests want of ThreadSanitizer unless TSAN_OPTIONS says otherwise. */

const char *__tsan_default_options(void);

/* It would wait a second for races at the exit of each of thousands of programs. */
__attribute__((no_sanitize("thread"))) const char *__tsan_default_options(void) {
    return "atexit_sleep_ms=0";
}
