/* fiber.c: stacks, the switch, and the sanitizer hooks behind fiber.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS, MAP_STACK */
#endif

#include "fiber.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES ((size_t)4096)
#define COLOURS 61u /* coprime to the number of cache sets */
#define COLOUR_BYTES ((size_t)128)

/* The sanitizers' own entry points. Weak: present exactly when the program was
 * linked with the sanitizer, whatever flags this file was compiled with. */
#define WEAK __attribute__((weak))
extern void *__tsan_get_current_fiber(void) WEAK;
extern void *__tsan_create_fiber(unsigned flags) WEAK;
extern void __tsan_destroy_fiber(void *fiber) WEAK;
extern void __tsan_switch_to_fiber(void *fiber, unsigned flags) WEAK;
extern void __tsan_set_fiber_name(void *fiber, const char *name) WEAK;
extern void __tsan_acquire(void *addr) WEAK;
extern void __tsan_release(void *addr) WEAK;
extern void AnnotateIgnoreWritesBegin(const char *file, int line) WEAK;
extern void AnnotateIgnoreWritesEnd(const char *file, int line) WEAK;
extern void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size) WEAK;
extern void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *size) WEAK;
extern void __asan_unpoison_memory_region(const volatile void *addr, size_t size) WEAK;

/* A switch is no synchronisation: otherwise every missing release or acquire in
 * device code would be hidden by the scheduler's own order. */
#define TSAN_NO_SYNC 1u

static whi_fiber_hooks hooks;
static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;

static void find_hooks(void) {
    hooks.asan = __sanitizer_start_switch_fiber != NULL && __asan_unpoison_memory_region != NULL;
    hooks.tsan = __tsan_switch_to_fiber != NULL && __tsan_create_fiber != NULL;
}

const whi_fiber_hooks *whi_fiber_get_hooks(void) {
    (void)pthread_once(&hooks_once, find_hooks);
    return &hooks;
}

/* A sanitizer's report runs on the stack of the lane that is at fault, and its
 * instrumentation makes frames larger. */
size_t whi_fiber_slot_bytes(void) {
    const whi_fiber_hooks *h = whi_fiber_get_hooks();
    return h->asan || h->tsan ? (size_t)256 << 10 : (size_t)32 << 10;
}

char *whi_fiber_map_stacks(size_t count) {
    char *p = mmap(NULL, count * whi_fiber_slot_bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    return p;
}

void whi_fiber_unmap_stacks(char *stacks, size_t count) {
    const size_t bytes = count * whi_fiber_slot_bytes();
    if (hooks.asan) {
        __asan_unpoison_memory_region(stacks, bytes);
    }
    (void)munmap(stacks, bytes);
}

#ifndef WH_SIM_UCONTEXT
/* The order of the six registers is known to whi_fiber_init. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl whi_fiber_swap\n"
        ".type whi_fiber_swap, @function\n"
        "whi_fiber_swap:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rbx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r12\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r13\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r14\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %r15\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r14\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r13\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %r12\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rbx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size whi_fiber_swap, .-whi_fiber_swap\n"
        ".p2align 4\n"
        ".globl whi_fiber_start\n"
        ".hidden whi_fiber_start\n"
        ".type whi_fiber_start, @function\n"
        "whi_fiber_start:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n" /* the end of every backtrace */
        "    movq %r12, %rdi\n"
        "    callq *%rbx\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size whi_fiber_start, .-whi_fiber_start\n");

extern char whi_fiber_start[];
#else
/* makecontext passes ints only. */
static void start_in_halves(unsigned fn_high, unsigned fn_low, unsigned arg_high,
                            unsigned arg_low) {
    const uintptr_t fn = (uintptr_t)(((uint64_t)fn_high << 32) | fn_low);
    const uintptr_t arg = (uintptr_t)(((uint64_t)arg_high << 32) | arg_low);
    ((void (*)(void *))fn)((void *)arg);
}
#endif

void whi_fiber_init(whi_fiber *f, char *slot, size_t number, void (*fn)(void *), void *arg) {
    const size_t colour = (number % COLOURS) * COLOUR_BYTES;
    f->stack_low = slot + PAGE_BYTES;
    f->stack_bytes = whi_fiber_slot_bytes() - PAGE_BYTES - colour;
    f->asan_stack = NULL;
    /* Without its guard page a stack still works, so a refusal (the system limits the
     * number of mappings) is no error. */
    (void)mprotect(slot, PAGE_BYTES, PROT_NONE);
    if (whi_fiber_get_hooks()->tsan) {
        f->tsan = __tsan_create_fiber(0);
    }
#ifndef WH_SIM_UCONTEXT
    /* As whi_fiber_swap leaves a stack; whi_fiber_start expects fn in rbx and arg in
     * r12, and the stack 16-byte aligned at its call. */
    void **sp = (void **)(void *)(f->stack_low + f->stack_bytes) - 9;
    sp[0] = NULL; /* r15 */
    sp[1] = NULL; /* r14 */
    sp[2] = NULL; /* r13 */
    sp[3] = arg;  /* r12 */
    memcpy(&sp[4], &fn, sizeof fn);
    sp[5] = NULL; /* rbp */
    sp[6] = whi_fiber_start;
    sp[7] = sp[8] = NULL;
    f->sp = sp;
#else
    const uint64_t fn_bits = (uint64_t)(uintptr_t)fn;
    const uint64_t arg_bits = (uint64_t)(uintptr_t)arg;
    (void)getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack_low;
    f->context.uc_stack.ss_size = f->stack_bytes;
    f->context.uc_link = NULL;
    makecontext(&f->context, (void (*)(void))start_in_halves, 4, (unsigned)(fn_bits >> 32),
                (unsigned)fn_bits, (unsigned)(arg_bits >> 32), (unsigned)arg_bits);
#endif
}

void whi_fiber_abandon(whi_fiber *f, void *object) {
    if (f->tsan != NULL) {
        /* The release that the fiber did not come to. */
        void *here = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(f->tsan, TSAN_NO_SYNC);
        __tsan_release(object);
        __tsan_switch_to_fiber(here, TSAN_NO_SYNC);
        __tsan_destroy_fiber(f->tsan);
        f->tsan = NULL;
    }
    if (hooks.asan) {
        __asan_unpoison_memory_region(f->stack_low, f->stack_bytes);
    }
}

void whi_fiber_adopt_thread(whi_fiber *f) {
    memset(f, 0, sizeof *f);
    if (whi_fiber_get_hooks()->tsan) {
        f->tsan = __tsan_get_current_fiber();
    }
}

/* Arrival: tells AddressSanitizer which stack is now in use, and learns where the
 * stack of an OS thread lies when it is first left. */
static void asan_arrived(whi_fiber *f) {
    const void *low = NULL;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(f->asan_stack, &low, &bytes);
    if (f->entered_from->stack_low == NULL) {
        memcpy(&f->entered_from->stack_low, &low, sizeof low);
        f->entered_from->stack_bytes = bytes;
    }
}

void whi_fiber_entered(whi_fiber *f) {
    if (hooks.asan) {
        asan_arrived(f);
    }
}

void whi_fiber_switch_hooked(whi_fiber *from, whi_fiber *to, bool dying) {
    to->entered_from = from;
    if (hooks.asan) {
        __sanitizer_start_switch_fiber(dying ? NULL : &from->asan_stack, to->stack_low,
                                       to->stack_bytes);
    }
    if (hooks.tsan) {
        __tsan_switch_to_fiber(to->tsan, TSAN_NO_SYNC);
    }
#ifndef WH_SIM_UCONTEXT
    whi_fiber_swap(&from->sp, to->sp);
#else
    (void)swapcontext(&from->context, &to->context);
#endif
    if (hooks.asan) {
        asan_arrived(from);
    }
}

void whi_fiber_name(const whi_fiber *f, uint32_t block, uint32_t thread) {
    if (f->tsan != NULL && __tsan_set_fiber_name != NULL) {
        char name[48];
        (void)snprintf(name, sizeof name, "block %u thread %u", (unsigned)block, (unsigned)thread);
        __tsan_set_fiber_name(f->tsan, name);
    }
}

void whi_tsan_release(void *object) {
    if (hooks.tsan) {
        __tsan_release(object);
    }
}

void whi_tsan_acquire(void *object) {
    if (hooks.tsan) {
        __tsan_acquire(object);
    }
}

void whi_tsan_ignore(bool on) {
    if (hooks.tsan && AnnotateIgnoreWritesBegin != NULL && AnnotateIgnoreWritesEnd != NULL) {
        (on ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
    }
}
