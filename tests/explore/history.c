/* history.c: see history.h. */
#include "explore/history.h"

const char *const history_fault_texts[HISTORY_FAULT_COUNT] = {
    [HISTORY_SOUND] = "sound",
    [HISTORY_OUTSIDE] = "a block outside of the heap",
    [HISTORY_TWICE] = "a block handed out twice",
    [HISTORY_FOREIGN] = "a free of no block",
    [HISTORY_NULL] = "NULL although there was room all the time",
};

static int is_malloc(const history_op *o) {
    return o->bytes != 0;
}

/* The free of a block: the first one of its address after its malloc. NULL: there is none. */
static const history_op *free_of(const history_op *ops, size_t n, const history_op *block) {
    const history_op *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const history_op *o = &ops[i];
        if (!is_malloc(o) && o->address == block->address && o->called >= block->returned &&
            (found == NULL || o->called < found->called)) {
            found = o;
        }
    }
    return found;
}

static int overlap(const history_op *a, const history_op *b) {
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/* Certainly live at the same time. */
static int live_together(const history_op *ops, size_t n, const history_op *a,
                         const history_op *b) {
    const history_op *a_free = free_of(ops, n, a), *b_free = free_of(ops, n, b);
    return (b_free == NULL || a->returned < b_free->called) &&
           (a_free == NULL || b->returned < a_free->called);
}

/* What may keep memory from another call at time t: blocks, and calls under way. */
static uint64_t most_kept(const history_op *ops, size_t n, const history_op *self, uint64_t t) {
    uint64_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const history_op *o = &ops[i];
        if (o == self || !is_malloc(o) || o->called > t) {
            continue;
        }
        const history_op *end = o->address != 0 ? free_of(ops, n, o) : NULL;
        kept += o->address == 0 ? o->returned >= t : end == NULL || end->returned >= t;
    }
    return kept;
}

/* Whether at one moment of a call, which are those at which something else begins or ends, there
 * may have been nothing. */
static int may_be_null(const history_op *ops, size_t n, const history_op *o,
                       const history_heap *heap) {
    const uint64_t room = heap->blocks != 0 ? heap->blocks : heap->chunks;
    for (size_t i = 0; i < n; i++) {
        const uint64_t at[] = {ops[i].called, ops[i].returned};
        for (size_t k = 0; k < 2; k++) {
            if (at[k] >= o->called && at[k] <= o->returned && most_kept(ops, n, o, at[k]) >= room) {
                return 1;
            }
        }
    }
    return 0;
}

static history_fault check_malloc(const history_op *ops, size_t n, size_t i,
                                  const history_heap *heap) {
    const history_op *o = &ops[i];
    if (o->address == 0) {
        return may_be_null(ops, n, o, heap) ? HISTORY_SOUND : HISTORY_NULL;
    }
    if (o->address < heap->base || o->address - heap->base > heap->bytes - o->bytes) {
        return HISTORY_OUTSIDE;
    }
    for (size_t k = 0; k < i; k++) {
        if (is_malloc(&ops[k]) && ops[k].address != 0 && overlap(o, &ops[k]) &&
            live_together(ops, n, o, &ops[k])) {
            return HISTORY_TWICE;
        }
    }
    return HISTORY_SOUND;
}

static history_fault check_free(const history_op *ops, size_t n, const history_op *o) {
    for (size_t k = 0; k < n; k++) {
        if (is_malloc(&ops[k]) && ops[k].address == o->address && free_of(ops, n, &ops[k]) == o) {
            return HISTORY_SOUND;
        }
    }
    return HISTORY_FOREIGN;
}

history_fault history_check(const history_op *ops, size_t n, const history_heap *heap,
                            size_t *where) {
    for (*where = 0; *where < n; (*where)++) {
        const history_op *o = &ops[*where];
        const history_fault f =
            is_malloc(o) ? check_malloc(ops, n, *where, heap) : check_free(ops, n, o);
        if (f != HISTORY_SOUND) {
            return f;
        }
    }
    return HISTORY_SOUND;
}
