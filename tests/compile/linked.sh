#!/bin/bash
# linked.sh: kernels that have malloc's slow path linked (WH_LINKED=1) compile without a warning and
# link with what src/device/linked.cu defines, from one file and from several; and headers that the
# linked functions do not fit are told so. Shared libraries that have the linked functions, too,
# leave those of others alone. No GPU is needed.
#
#   linked.sh <nvcc> <source folder>
set -u
nvcc=$1 root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

cat >kernel.cu <<'END'
#include <warpheap/warpheap.h>
__device__ void *other(wh_heap_ref heap, size_t n);
__global__ void NAME(wh_heap_ref heap, void **out, size_t n) {
    void *p = wh_malloc(heap, n);
    wh_free(heap, p);
    wh_free_block(heap, wh_malloc_block(heap, wh_blocks_left(heap, n)));
    const wh_pool_t pool = wh_pool_of(heap, n);
    wh_pool_free(pool, wh_pool_malloc(pool));
    out[threadIdx.x] = wh_realloc(heap, wh_aligned_alloc(heap, 1 << 15, n), 2 * n);
#ifdef OTHER
    out[threadIdx.x] = other(heap, n);
#endif
}
END
cat >other.cu <<'END'
#include <warpheap/warpheap.h>
__device__ void *other(wh_heap_ref heap, size_t n) {
    return wh_calloc(heap, n, 1);
}
END
echo 'int main() { return 0; }' >main.cu

failed=0
fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
    head -20 log
}
flags="-std=c++17 -arch=sm_90 -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror,-fPIC"
compile() { # <object> <file> <flags...>
    "$nvcc" $flags -I"${include:-$root/include}" -o "$1" -c "$2" "${@:3}" >log 2>&1
}
links() { # <objects...>
    "$nvcc" -arch=sm_90 -Xnvlink -v main.o "$@" -o program >log 2>&1
}
# what nvlink says of each kernel that needs more registers than its limit
above() {
    grep -oE 'used [0-9]+ registers' log | awk -v most="$1" '$2 > most'
}

linked="-rdc=true -DWH_LINKED=1"
compile main.o main.cu
library="malloc.o free.o"
compile malloc.o "$root/src/device/linked.cu" -rdc=true -DWH_LINKED_DEFINE=1 -maxrregcount=40 ||
    fail "the library does not compile"
compile free.o "$root/src/device/linked.cu" -rdc=true -DWH_LINKED_DEFINE=2 -maxrregcount=32 ||
    fail "the library's part for free does not compile"
compile one.o kernel.cu $linked -DNAME=one || fail "a file does not compile"
compile two.o kernel.cu $linked -DNAME=two -DOTHER || fail "a file of two does not compile"
compile other.o other.cu $linked || fail "a file without a kernel does not compile"
# -Ofc: that header-only files are another's neighbours is the question, not what they cost.
compile header_only.o other.cu -rdc=true -Ofc max || fail "header-only, with -rdc"

if ! links one.o $library; then
    fail "one file does not link"
elif [ "$(grep -c 'used .* registers' log)" -ne 1 ] || [ -n "$(above 64)" ]; then
    fail "not one kernel of at most 64 registers, for blocks of 1,024 threads"
fi
links one.o two.o other.o $library || fail "three files do not link"
links two.o header_only.o $library || fail "a linked file and a header-only one do not link"

# By default each module would define the functions that register the library's code, and the
# dynamic linker would have all of them call those of the first: no kernel of the others starts.
if ! "$nvcc" -arch=sm_90 -shared one.o $library -o module.so >log 2>&1; then
    fail "a shared library does not link"
elif nm -D module.so | grep _linked_cu_ >log; then
    fail "a shared library exports the library's symbols"
fi

# Nothing links by chance.
links one.o && fail "a kernel links without the library"
grep -q 'Undefined reference.*wh_tessera_soon_' log || fail "it is not said what is missing"
compile whole.o kernel.cu -DWH_LINKED=1 -DNAME=one && fail "no -rdc, and no error"
grep -q 'WH_LINKED=1 wants relocatable device code: nvcc -rdc=true' log ||
    fail "it is not said that -rdc=true is missing"
compile whole.o kernel.cu -DWH_LINKED=0 -DNAME=one -Ofc max || fail "WH_LINKED=0 is not header-only"
compile asserts.o kernel.cu $linked -DNAME=one -DWH_ASSERTS=1 || fail "WH_ASSERTS does not compile"
links asserts.o $library && fail "a file with assertions links with a library without"
grep -q 'asserts1.*wh_tessera_soon_' log || fail "the assertions are not named"
cp -r "$root/include" .
sed -i 's/\(VERSION_PATCH\) [0-9]*$/\1 99/' include/warpheap/detail/version.h
include=include compile later.o kernel.cu $linked -DNAME=one || fail "a later version"
links later.o $library && fail "a file of a later version links"
grep -q '_99.*wh_tessera_soon_' log || fail "the later version is not named"

[ $failed -eq 0 ] && echo "linked files compile, and link with what fits them"
exit $failed
