/* ucontext.c: the simulator's core built to switch by swapcontext, as on processors
 * without a switch of their own. The core is compiled into this program in place of the
 * library's, and passes the tests of schedule.c.
 *
 * Skipped under ThreadSanitizer, where tests are instrumented but the core must not be. */
#if defined(__SANITIZE_THREAD__)
#define SKIP 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SKIP 1
#endif
#endif

#ifdef SKIP
int main(void);
int main(void) {
    return 77;
}
#else
#define _GNU_SOURCE 1
#define WH_SIM_UCONTEXT 1
/* clang-format off */
#include "sim/fiber.c"
#include "sim/describe.c"
#include "sim/lanes.c"
#include "sim/choices.c"
#include "sim/activemask.c"
#include "sim/weak.c"
#include "sim/sched.c"
#include "sim/collective.c"
#include "sim/spare.c"
#include "sim/grid.c"
#include "sim/device_sim.c"
#include "sim/fault.c"
#include "schedule.c"
#endif
