#!/bin/bash
# users.sh: our headers in users' files: warnings that users ask for beyond ours, each standard of
# C++, and macros whose names we use (hostile_macros.h). With -I, not -isystem.
#
#   users.sh <gcc|clang|gxx|clangxx|nvcc> <compiler> <include folder> <folder of this file>
set -u
kind=$1 compiler=$2 include=$3 here=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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
    check -std=c11 $common -Wpedantic -Wundef -fsyntax-only -x c "$here/user.cu"
    check -std=c11 $common -Wpedantic -Wundef -fsyntax-only -x c "$here/user_graph.cu"
    check -std=c11 $common -Wpedantic -Wundef -fsyntax-only -x c "$hostile"
    ;;
gxx | clangxx)
    [ "$kind" = gxx ] && cxx="$cxx -Wuseless-cast"
    for standard in 11 14 17 20 23; do
        # The name of a standard that is not finished, for compilers from before.
        echo >"$work/empty.cc"
        "$compiler" -std=c++$standard -fsyntax-only "$work/empty.cc" 2>/dev/null || standard=2b
        check -std=c++$standard $cxx -Wpedantic -Wundef -fsyntax-only -x c++ "$here/user.cu"
        check -std=c++$standard $cxx -Wpedantic -Wundef -fsyntax-only -x c++ "$here/user_graph.cu"
        [ "$standard" = 11 ] && continue
        check -std=c++$standard $cxx -Wpedantic -Wundef -fsyntax-only -x c++ \
            "$here/user_containers.cu"
    done
    check -std=c++17 $common -Wpedantic -Wundef -fsyntax-only -x c++ "$hostile"
    # Without what many who write for GPUs turn off.
    check -std=c++14 $cxx -fno-exceptions -fno-rtti -fsyntax-only -x c++ "$here/user_containers.cu"
    ;;
nvcc)
    flags="-arch=sm_90 -Ofc max -c -x cu"
    for standard in 11 14 17 20; do
        check -std=c++$standard $flags -Xcompiler="${cxx// /,},-Wuseless-cast" "$here/user.cu" \
            -DWH_ALLOCATOR=bump
    done
    check -std=c++14 $flags -Xcompiler="${cxx// /,},-Wuseless-cast" "$here/user_graph.cu" \
        -DWH_ALLOCATOR=bump
    for standard in 14 20; do
        check -std=c++$standard $flags -Xcompiler="${cxx// /,},-Wuseless-cast" \
            "$here/user_containers.cu" -DWH_ALLOCATOR=bump
    done
    check -std=c++17 $flags -Xcompiler="${common// /,}" "$hostile"
    ;;
*) echo "unknown kind $kind" >&2 && exit 2 ;;
esac
echo "$passed of $((passed + failed)) compile without a word ($kind)"
exit $((failed != 0))
