/* history.h: what lanes asked of a heap, and whether a heap may have answered so. Plain C. */
#ifndef WH_TESTS_EXPLORE_HISTORY_H
#define WH_TESTS_EXPLORE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* A call, with the simulator's clock before it and behind it. */
typedef struct history_op {
    uint64_t called, returned;
    uint64_t address; /* malloc: 0 is NULL; free: of the block */
    uint64_t bytes;   /* malloc: asked for; free: 0 */
} history_op;

/* What is known of the heap: how many blocks of each size it holds if there is nothing else, by
 * which a NULL is judged. */
typedef struct history_heap {
    uint64_t base, bytes;
    uint64_t slots; /* blocks of any of the sizes that are asked for, at the worst, in a chunk */
    uint64_t chunk_bytes, chunks;
    uint64_t blocks; /* one size alone: how many there are; 0: sizes are mixed */
} history_heap;

typedef enum history_fault {
    HISTORY_SOUND,
    HISTORY_OUTSIDE, /* a block that does not lie in the heap */
    HISTORY_TWICE,   /* a block that another one has */
    HISTORY_FOREIGN, /* a free of what nobody has: the test is wrong */
    HISTORY_NULL,    /* NULL, and at no moment of the call the heap could be full */
    HISTORY_FAULT_COUNT
} history_fault;

extern const char *const history_fault_texts[HISTORY_FAULT_COUNT];

/* The sequential specification. A block is certainly live from the return of its malloc to the call
 * of its free, and at most from the call of its malloc to the return of its free. Two blocks that
 * are certainly live at one moment must not overlap. NULL is right if, at one moment of the call,
 * all that may be live then leaves no room: of one size, if it is as many blocks as there are; of
 * several, if each of the other calls that are under way, and each block, may keep a chunk. *where:
 * the operation. n: how many, of all lanes. */
history_fault history_check(const history_op *ops, size_t n, const history_heap *heap,
                            size_t *where);

#endif
