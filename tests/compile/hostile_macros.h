/* hostile_macros.h: macros of programs and libraries before our headers are included, and in use
 * after them. What they stand for breaks any header that they reach. */
#ifndef HOSTILE_MACROS_H
#define HOSTILE_MACROS_H

/* The C library comes before macros that replace its functions. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HOSTILE @reached by a macro @

/* POSIX, glibc and gcc */
#undef linux
#undef unix
#undef I
#undef major
#undef minor
#define linux HOSTILE
#define unix HOSTILE
#define I HOSTILE
#define major(device) HOSTILE
#define minor(device) HOSTILE
#define index HOSTILE
#define log2 HOSTILE
#define open(path) HOSTILE
#define link(from, to) HOSTILE

/* Programs with an allocator of their own */
#define malloc(n) HOSTILE
#define free(p) HOSTILE
#define calloc(n, size) HOSTILE
#define realloc(p, n) HOSTILE
#define aligned_alloc(align, n) HOSTILE
#define usable_size(p) HOSTILE
#define owns HOSTILE

/* Constants and types in small programs */
#define T HOSTILE
#define R HOSTILE
#define N HOSTILE
#define h HOSTILE

/* Windows, Qt, SDL, Linux */
#define small HOSTILE
#define near
#define far
#define interface HOSTILE
#define IN
#define OUT
#define ERROR 0
#define TRUE 1
#define FALSE 0
#define slots
#define signals HOSTILE
#define emit
#define foreach(x, list) HOSTILE
#define forever HOSTILE
#define noinline HOSTILE
#define unused HOSTILE
#define noreturn HOSTILE
#define weak HOSTILE
#define aligned HOSTILE
#define likely(x) HOSTILE
#define unlikely(x) HOSTILE
#define list_head HOSTILE

/* Kernels, contests, whoever */
#define n HOSTILE
#define lane (threadIdx.x & 31)
#define mask HOSTILE
#define size HOSTILE
#define heap HOSTILE
#define word HOSTILE
#define page HOSTILE
#define count(x) HOSTILE
#define begin HOSTILE
#define end HOSTILE
#define ALIGN HOSTILE
#define ALL HOSTILE
#define ANY HOSTILE
#define BLOCK HOSTILE
#define BLOCKS HOSTILE
#define CHECK(call) HOSTILE
#define EACH HOSTILE
#define FREE(p) HOSTILE
#define GROW HOSTILE
#define LEFT HOSTILE
#define LOAD HOSTILE
#define MAX_ALIGN HOSTILE
#define NAME HOSTILE
#define NONE HOSTILE
#define OK HOSTILE
#define OWNS HOSTILE
#define PCT HOSTILE
#define RANDOM HOSTILE
#define RESET HOSTILE
#define ROUND_ROBIN HOSTILE
#define SIM HOSTILE
#define STALL HOSTILE
#define STATS HOSTILE
#define STORE HOSTILE
#define UNSUPPORTED HOSTILE
#define WALK HOSTILE
#define WARP HOSTILE
#define X HOSTILE
#define acquire HOSTILE
#define relaxed HOSTILE
#define release HOSTILE
#define exchange HOSTILE
#define add HOSTILE
#define all(c) HOSTILE
#define any HOSTILE
#define each HOSTILE
#define error HOSTILE
#define fast HOSTILE
#define next HOSTILE
#define none HOSTILE
#define pool HOSTILE
#define lock HOSTILE
#define round(x) HOSTILE
#define floor(x) HOSTILE
#define random() HOSTILE
#define puts(s) HOSTILE
#define clock() HOSTILE
#define skip HOSTILE
#define step HOSTILE
#define some HOSTILE
#define min(a, b) HOSTILE
#define max(a, b) HOSTILE
#define abs(a) HOSTILE
#undef assert
#define assert(x) HOSTILE

#endif
