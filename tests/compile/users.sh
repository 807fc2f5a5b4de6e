#!/bin/bash
# users.sh: our headers in users' files: warnings that users ask for beyond ours, each standard of
# C++, and macros whose names we use (hostile_macros.h). With -I, not -isystem.
#
#   users.sh <gcc|clang|gxx|clangxx|nvcc> <compiler> <include folder> <folder of this file>
set -u
kind=$1 compiler=$2 include=$3 here=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/user.cu" <<'END'
#include <warpheap/warpheap.h>

typedef struct args {
    wh_heap_t heap;
    void **out;
} args;
WH_KERNEL(user, args, a) {
    const wh_mask_t here = wh_activemask();
    void *p = wh_realloc(a.heap, wh_calloc(a.heap, 3, 5), 50);
    wh_free(a.heap, wh_owns(a.heap, p) ? p : wh_aligned_alloc(a.heap, 64, wh_usable_size(a.heap, p)));
    a.out[wh_thread_id()] = wh_malloc_warp(a.heap, here, 100);
    wh_free_warp(a.heap, here, a.out[wh_thread_id()]);
    wh_free_lanes(a.heap, here, wh_malloc_lanes(a.heap, here, 16));
    wh_syncwarp(here);
    wh_syncthreads();
    if (wh_any_here(a.out[0] == a.out[1]) != 0 && wh_ballot(here, 1) != here) {
        wh_trap("no lane comes here");
    }
}
wh_status use(const wh_launch *launch, const wh_heap *heap, args *a, const void **symbol);
wh_status use(const wh_launch *launch, const wh_heap *heap, args *a, const void **symbol) {
    *symbol = WH_KERNEL_SYMBOL(user);
    const wh_status status = wh_heap_handle(heap, &a->heap);
    return status == WH_OK ? user(launch, a) : status;
}
END

# What nvcc's own headers and the code that it makes say about themselves does not count.
ours='warpheap/|user\.cu|hostile_macros|annot open|nrecognized|fatal'
failed=0 passed=0
compiles() { # <flags and file...>
    "$compiler" -I"$include" "$@" -o "$work/out" >"$work/log" 2>&1
    local status=$?
    if [ "$kind" = nvcc ]; then
        ! grep -v 'cudafe1\.stub' "$work/log" | grep -qE "$ours" && [ $status -eq 0 ]
    else
        [ $status -eq 0 ] && [ ! -s "$work/log" ]
    fi
}
check() { # <flags and file...>
    if compiles "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $compiler $*"
        grep -E "$ours|error" "$work/log" | head -20
    fi
}

common="-Wall -Wextra -Wconversion -Wshadow -Wsign-conversion -Wcast-qual"
cxx="$common -Wold-style-cast -Wzero-as-null-pointer-constant"
hostile=$here/hostile_macros.c
case $kind in
gcc | clang)
    check -std=c11 $common -Wpedantic -Wundef -fsyntax-only -x c "$work/user.cu"
    check -std=c11 $common -Wpedantic -Wundef -fsyntax-only -x c "$hostile"
    ;;
gxx | clangxx)
    [ "$kind" = gxx ] && cxx="$cxx -Wuseless-cast"
    for standard in 11 14 17 20 23; do
        # The name of a standard that is not finished, for compilers from before.
        echo >"$work/empty.cc"
        "$compiler" -std=c++$standard -fsyntax-only "$work/empty.cc" 2>/dev/null || standard=2b
        check -std=c++$standard $cxx -Wpedantic -Wundef -fsyntax-only -x c++ "$work/user.cu"
    done
    check -std=c++17 $common -Wpedantic -Wundef -fsyntax-only -x c++ "$hostile"
    ;;
nvcc)
    flags="-arch=sm_90 -Ofc max -c -x cu"
    for standard in 11 14 17 20; do
        check -std=c++$standard $flags -Xcompiler="${cxx// /,},-Wuseless-cast" "$work/user.cu" \
            -DWH_ALLOCATOR=bump
    done
    check -std=c++17 $flags -Xcompiler="${common// /,}" "$hostile"
    ;;
*) echo "unknown kind $kind" >&2 && exit 2 ;;
esac
echo "$passed of $((passed + failed)) compile without a word ($kind)"
exit $((failed != 0))
