/* fiber.h: stacks that one OS thread switches between, with the hooks that
 * AddressSanitizer and ThreadSanitizer need. x86-64 switches by a few instructions;
 * other processors, and builds with WH_SIM_UCONTEXT, by swapcontext. */
#ifndef WHI_FIBER_H
#define WHI_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instrumented code must not switch stacks behind ThreadSanitizer's back, and the
 * scheduler's own accesses must not look like the program's. */
#if defined(__SANITIZE_THREAD__)
#error "compile src/sim with -fno-sanitize=thread"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#error "compile src/sim with -fno-sanitize=thread"
#endif
#endif

#if !defined(__x86_64__) && !defined(WH_SIM_UCONTEXT)
#define WH_SIM_UCONTEXT 1
#endif

#ifdef WH_SIM_UCONTEXT
#include <ucontext.h>
#endif

typedef struct whi_fiber {
    void *sp; /* where the fiber goes on; unused with ucontext */
    char *stack_low;
    size_t stack_bytes;
    void *tsan;                     /* ThreadSanitizer's context of this fiber */
    void *asan_stack;               /* AddressSanitizer's fake stack while the fiber rests */
    struct whi_fiber *entered_from; /* hooked switches only */
#ifdef WH_SIM_UCONTEXT
    ucontext_t context;
#endif
} whi_fiber;

/* Which sanitizer runs this process: found at run time, so that the simulator core
 * itself can be built without instrumentation. */
typedef struct whi_fiber_hooks {
    bool asan;
    bool tsan;
} whi_fiber_hooks;
const whi_fiber_hooks *whi_fiber_get_hooks(void);

/* Bytes of one stack slot, guard page included. */
size_t whi_fiber_slot_bytes(void);

/* Maps count stack slots next to each other; NULL when there is no memory. */
char *whi_fiber_map_stacks(size_t count);
void whi_fiber_unmap_stacks(char *stacks, size_t count);

/* Sets a fiber up at a slot to run fn(arg), which must never return. number spreads
 * the tops of stacks over cache sets: stacks at equal offsets would evict each other. */
void whi_fiber_init(whi_fiber *f, char *slot, size_t number, void (*fn)(void *), void *arg);

/* Drops what a sanitizer keeps for a fiber that rests and will not run again. What it
 * did happens before whatever acquires object later. */
void whi_fiber_abandon(whi_fiber *f, void *object);

/* The fiber of the OS thread's own stack, from which fibers are entered. */
void whi_fiber_adopt_thread(whi_fiber *f);

/* Called first thing in fn. */
void whi_fiber_entered(whi_fiber *f);

/* The slow switch: hooks and ucontext. dying: `from` will not run again. */
void whi_fiber_switch_hooked(whi_fiber *from, whi_fiber *to, bool dying);

#ifndef WH_SIM_UCONTEXT
/* Saves the callee-saved registers on the current stack and its pointer in *save,
 * then takes those at load. */
void whi_fiber_swap(void **save, void *load);
#endif

static inline void whi_fiber_switch(whi_fiber *from, whi_fiber *to, bool hooked) {
#ifndef WH_SIM_UCONTEXT
    if (!hooked) {
        whi_fiber_swap(&from->sp, to->sp);
        return;
    }
#else
    (void)hooked;
#endif
    whi_fiber_switch_hooked(from, to, false);
}

/* Names the lane in ThreadSanitizer's reports. */
void whi_fiber_name(const whi_fiber *f, uint32_t block, uint32_t thread);

/* ThreadSanitizer edges; no-ops without it. */
void whi_tsan_release(void *object);
void whi_tsan_acquire(void *object);

/* Until off, what this thread does is no access in ThreadSanitizer's eyes, and memory that it
 * takes from malloc has no history there. */
void whi_tsan_ignore(bool on);

#endif
