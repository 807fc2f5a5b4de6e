#!/bin/bash
# openmp.sh: examples/openmp as docs/REPLACE_MALLOC.md says: clang's OpenMP offload, whose malloc
# and free become calls of a heap. Compiled and linked for sm_90; run where there is a GPU. Exit
# status 77: there is no clang that makes such code.
#
#   openmp.sh <nvcc> <source folder> <static library of the host>
set -u
nvcc=$1 root=$2 host=$3
cuda=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2

offload="-O2 -fopenmp --offload-arch=sm_90 -foffload-lto --cuda-path=$cuda"
cat >try.c <<'END'
int main(void) {
    int n = 0;
#pragma omp target map(tofrom : n)
    n++;
    return n != 1;
}
END
clang=
for name in clang clang-19 clang-20 clang-21 clang-22; do
    if command -v $name >/dev/null && $name $offload -Werror try.c -o try >log 2>&1; then
        clang=$name
        break
    fi
done
if [ -z "$clang" ]; then
    echo "skipped: no clang here makes OpenMP offload for sm_90 with -foffload-lto"
    exit 77
fi
fail() {
    echo "FAIL $1"
    head -20 log
    exit 1
}
# As from warpheap_abi.ptx; -Ofc: whether it links is the question.
"$nvcc" -arch=compute_90 -rdc=true -std=c++17 -I"$root/include" -ptx -o warpheap_abi.ptx \
    "$root/src/device/abi.cu" >log 2>&1 || fail "the functions do not compile"
"$cuda/bin/ptxas" -c -arch=sm_90 -Ofc max warpheap_abi.ptx -o warpheap_abi.cubin >log 2>&1 ||
    fail "their PTX does not compile"
for file in lists malloc; do
    $clang $offload -Wall -Wextra -Werror -I"$root/include" -c "$root/examples/openmp/$file.c" \
        >log 2>&1 || fail "$file.c does not compile"
done
$clang $offload -save-temps lists.o malloc.o -Xoffload-linker warpheap_abi.cubin "$host" \
    -Wl,--no-as-needed -lpthread -lm -lstdc++ -o lists >log 2>&1 || fail "the program does not link"
# ptxas sees our malloc and free, if any is left, in the PTX of the kernels: nothing is left for
# CUDA's, and nothing that another file would find.
readelf --syms --wide lists.*.img >symbols 2>log
grep -qE 'FUNC +GLOBAL .* wh_abi1_malloc$' symbols || fail "the functions are not in the image"
grep -E ' UND (malloc|free)$' symbols >log && fail "calls of CUDA's malloc are left"
grep -qE 'FUNC .* __omp_offloading' symbols || fail "no target region is in the image"
# This test would see such calls.
echo 'int use_heap_in_targets(void *heap) { return heap != 0; }' >none.c
$clang $offload -c none.c -o none.o >log 2>&1 &&
    $clang $offload -save-temps lists.o none.o "$host" -lm -lstdc++ -o without >log 2>&1
readelf --syms --wide without.*.img >symbols 2>>log
grep -qE 'FUNC .* malloc$| UND malloc$' symbols || fail "this test does not see CUDA's malloc"
./lists >log 2>&1
status=$?
[ $status -eq 0 ] || [ $status -eq 77 ] || fail "the program ends with status $status"
echo "$($clang --version | head -1): malloc and free of target regions are a heap's"
