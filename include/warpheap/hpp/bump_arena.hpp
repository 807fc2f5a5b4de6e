/* hpp/bump_arena.hpp: wh::bump_arena, one lane's arena of arena.h, which closes itself. Part of
 * warpheap.hpp; include that.
 *
 * One lane owns it. It hands out memory for a few instructions a block, and takes all of it back at
 * once: by rewind, at the end of a scope (bump_scope), or when it ends. Nobody ends what lies in
 * the memory, so make takes types that have nothing to end. docs/ARENA.md has pieces, costs and
 * mistakes; the arenas of a warp and of a block are C calls, which all their lanes make.
 *
 * Check   tests/cpp/owned.cpp; tests/arena for what is below
 */
#ifndef WH_HPP_BUMP_ARENA_HPP
#define WH_HPP_BUMP_ARENA_HPP

#include "warpheap/arena.h"
#include "warpheap/hpp/objects.hpp"

#include "warpheap/detail/simt/begin.h"

namespace wh {
inline namespace WH_HPP_KIND {

class bump_arena {
  public:
    /* Takes nothing so far. first, most: of wh_arena_open. */
    WH_DEVICE explicit bump_arena(const heap_ref &heap, uint32_t first = 0, uint32_t most = 0)
        : heap_(heap), arena_(wh_arena_open(first, most)) {
    }
    bump_arena(const bump_arena &) = delete;
    bump_arena &operator=(const bump_arena &) = delete;
    WH_DEVICE ~bump_arena() {
        wh_arena_close(heap_, &arena_);
    }

    /* At least n bytes at a multiple of align, a power of two; nullptr for n = 0, and when the heap
     * has no piece for them: the arena stays as it is. */
    WH_DEVICE void *allocate(size_t n, size_t align = 16) {
        return align > 16 ? wh_arena_aligned_alloc(heap_, &arena_, align, n)
                          : wh_arena_malloc(heap_, &arena_, n);
    }
    template <class T, class... Args> WH_DEVICE T *make(Args &&...args) {
        static_assert(own::has_nothing_to_end<T>::value, "nobody would end the object");
        T *p = static_cast<T *>(allocate(sizeof(T), alignof(T)));
        return p != nullptr ? own::construct(p, own::forward<Args>(args)...) : nullptr;
    }
    /* n of them, T() each. */
    template <class T> WH_DEVICE T *make_array(size_t n) {
        static_assert(own::has_nothing_to_end<T>::value, "nobody would end the objects");
        const bool can_be = n <= ~static_cast<size_t>(0) / sizeof(T);
        T *p = can_be ? static_cast<T *>(allocate(n * sizeof(T), alignof(T))) : nullptr;
        for (size_t i = 0; p != nullptr && i < n; i++) {
            own::construct(p + i);
        }
        return p;
    }

    /* Where the arena is; all that came since is gone after a rewind to there. */
    WH_DEVICE wh_arena_place mark() {
        return wh_arena_mark(&arena_);
    }
    WH_DEVICE void rewind(wh_arena_place place) {
        wh_arena_rewind(heap_, &arena_, place);
    }

  private:
    heap_ref heap_;
    wh_arena arena_;
};

/* Marks an arena, and rewinds it when the scope ends. */
class bump_scope {
  public:
    WH_DEVICE explicit bump_scope(bump_arena &arena) : arena_(arena), place_(arena.mark()) {
    }
    bump_scope(const bump_scope &) = delete;
    bump_scope &operator=(const bump_scope &) = delete;
    WH_DEVICE ~bump_scope() {
        arena_.rewind(WH_PLANT(bump_scope_place, place_, arena_.mark()));
    }

  private:
    bump_arena &arena_;
    wh_arena_place place_;
};

} // namespace WH_HPP_KIND
} // namespace wh

#include "warpheap/detail/simt/end.h"

#endif
