#!/bin/bash
# abi.sh: warpheap_abi.h and warpheap_replace.h as users compile and link them: the header alone in
# C and C++, the functions linked from an archive, by nvcc with machine code and with LTO, by NVRTC
# and nvJitLink (abi_jit.py); a program of C++ whose device malloc, free, new and delete are
# replaced by -include, and kernels by LTO. No GPU is needed.
#
#   abi.sh <nvcc> <source folder> <static library of the host> <C compiler> <C++ compiler>
set -u
nvcc=$1 root=$2 host=$3 cc=$4 cxx=$5
here=$root/tests/compile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

failed=0
fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
    head -20 log
}

# The header alone: no #include in it, no warning.
grep '^#include' "$root/include/warpheap/warpheap_abi.h" >log && fail "it includes something"
printf '#include <warpheap/warpheap_abi.h>\n%s\n' \
    'void *f(wh_abi1_heap h) { return wh_abi1_free(h, 0) ? 0 : wh_abi1_malloc(h, 16); }' >user.c
strict="-Wall -Wextra -Wpedantic -Wundef -Wshadow -Wconversion -Werror -Wno-long-long"
"$cc" -std=c99 $strict -I"$root/include" -c user.c -o user.o >log 2>&1 || fail "C99"
cp user.c user.cpp
"$cxx" -std=c++98 $strict -I"$root/include" -c user.cpp -o user.o >log 2>&1 || fail "C++98"

flags="-std=c++17 -arch=sm_90 -I$root/include -Xcompiler=-Wall,-Wextra,-Werror"
compile() { # <object> <file> <flags...>
    "$nvcc" $flags -Werror all-warnings -o "$1" -c "$2" "${@:3}" >log 2>&1
}
device="$root/src/device"
compile abi.o "$device/abi.cu" -rdc=true -Xptxas --device-function-maxrregcount=64 ||
    fail "the functions do not compile"
ar rcs libwarpheap_abi.a abi.o

# Host code of an object or program must not define a function of a device.
nm --defined-only abi.o | grep -E ' wh_abi1_\w+$' >log && fail "abi.o defines a host function"

# What a link of device code has: which of these functions are defined, which are not.
links() { # <objects and libraries...>
    "$nvcc" -arch=sm_90 -dlink -cubin -o all.cubin "$@" -Xnvlink -v >log 2>&1 &&
        readelf --syms --wide all.cubin >symbols 2>/dev/null
}
defined() { # <name>
    grep -qE "FUNC +GLOBAL +DEFAULT .* [0-9]+ $1\$" symbols
}

# A kernel that calls the functions.
compile abi_user.o "$here/abi_user.cu" -rdc=true || fail "a kernel does not compile"
if ! links abi_user.o -L. -lwarpheap_abi; then
    fail "a kernel does not link"
elif ! defined wh_abi1_malloc || ! defined wh_abi1_free_warp; then
    fail "a function is missing"
elif grep -oE 'used [0-9]+ registers' log | awk '$2 > 64 {exit 1}'; then
    :
else
    fail "a kernel has more than 64 registers: no blocks of 1,024 threads"
fi
links abi_user.o && fail "a kernel links without the functions"
grep -q "Undefined reference.*wh_abi1_malloc" log || fail "it is not said what is missing"

# A program of C++ that knows nothing of us has CUDA's malloc.
compile user.o "$here/malloc_user.cu" -rdc=true -DOTHER_FILE || fail "a program does not compile"
undefined='GLOBAL .* UND (malloc|free|__cuda_syscall\w*)$'

# -include, in two files, each with a malloc of its own: without -rdc and with it. -Ofc: whether it
# compiles.
include="-include warpheap/warpheap_replace.h -Ofc max --keep"
for rdc in "" -rdc=true; do
    rm -f *.cubin
    compile main.o "$here/malloc_user.cu" $include $rdc -DMALLOC_REPLACED || fail "-include $rdc"
    compile live.o "$here/live_user.cu" $include $rdc || fail "-include $rdc, another file"
    "$nvcc" -arch=sm_90 $rdc -o program main.o live.o "$host" >log 2>&1 ||
        fail "-include $rdc does not link"
    ./program host >log 2>&1 || fail "the host's malloc and new do not work with -include $rdc"
    for file in malloc_user*.cubin live_user*.cubin; do
        readelf --syms --wide "$file" >symbols 2>log
        grep -qE 'FUNC .*6mallocEm$' symbols || fail "-include $rdc does not define malloc"
        grep -E "$undefined" symbols >log && fail "-include $rdc leaves calls of CUDA's malloc"
        # No call of another file may find it: ptxas has compiled that for CUDA's.
        grep -E 'FUNC +(GLOBAL|WEAK) .* [0-9]+ (malloc|free)$' symbols >log &&
            fail "others find our malloc"
    done
    # Where values wait for malloc to return: not where ours may overwrite them.
    python3 "$here/live.py" "$nvcc" live_user*.cubin >log 2>&1
    case $? in
    0) cat log ;;
    77) [ -z "$rdc" ] && cat log ;;
    *) fail "a kernel may lose values in malloc, with -include $rdc" ;;
    esac
done
links main.o user.o || fail "a file with -include does not link beside one without"
defined malloc && fail "a file without -include gets our malloc"
"$nvcc" $flags -rdc=true -cubin -o live.cubin "$here/live_user.cu" >log 2>&1
readelf --syms --wide live.cubin 2>/dev/null | grep -qE "$undefined" ||
    fail "this test does not see a call of CUDA's malloc"
python3 "$here/live.py" "$nvcc" live.cubin special >log 2>&1 && cat log

objcopy -O binary --only-section=__nv_relfatbin abi.o warpheap_abi.fatbin
python3 "$here/abi_jit.py" "$nvcc" "$root" warpheap_abi.fatbin
case $? in
0 | 77) ;;
*) failed=$((failed + 1)) ;;
esac
[ $failed -eq 0 ] && echo "the functions link, and malloc is replaced"
exit $failed
