#!/bin/bash
# headers.sh: every public header compiles alone with all warnings as errors, and
# two translation units that include everything link into one program with the
# library. Device headers are checked for the target that the compiler is for.
#
#   headers.sh <gcc|clang|gxx|nvcc> <compiler> <include folder> <static library> [brief]
#
# brief: all of them in one unit, twice, and the two units that link; none alone.
set -u
kind=$1 compiler=$2 include=$3 library=$4 brief=${5:-}
alone=-c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

strict="-Wall -Wextra -Wundef -Wshadow -Wconversion -Werror"
case $kind in
gcc | clang)
    flags="-std=c11 -Wpedantic -Wstrict-prototypes -Wmissing-prototypes $strict"
    suffix=c
    ;;
gxx)
    flags="-std=c++17 $strict"
    suffix=cpp
    ;;
nvcc)
    flags="-std=c++17 -arch=sm_90 -Werror all-warnings"
    flags="$flags -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Werror"
    suffix=cu
    ;;
*) echo "unknown kind $kind" >&2 && exit 2 ;;
esac

# simt/sim.h and simt/cuda.h are the two halves of simt.h, which picks one; simt/begin.h
# and simt/end.h stand in other headers. An allocator without the bit WH_CAP_SIM
# exists for nvcc alone.
headers=$(cd "$include" && find warpheap -name '*.h' | sort |
    grep -v -E '^warpheap/detail/simt/(sim|cuda|bits|begin|end)\.h$')
# C++ has its own, of which nvcc reads the one that users name.
case $kind in
gxx) headers="$headers $(cd "$include" && find warpheap -name '*.hpp' | sort)" ;;
nvcc) headers="$headers warpheap/warpheap.hpp" ;;
esac
[ "$kind" = nvcc ] || headers=$(grep -v '^warpheap/detail/alloc/cuda/' <<<"$headers")
# That takes the place of malloc in the file that includes it: abi.sh.
headers=$(grep -v 'warpheap_replace' <<<"$headers")
# nvcc alone takes long for its host half, which the two units have, too.
[ "$kind" = nvcc ] && alone=-ptx

failed=0
{
    echo '/* written by headers.sh */'
    for header in $headers; do echo "#include \"$header\""; done
} >"$work/all.h"

# Twice: the include guard holds.
alone="-I$work $alone"
for header in ${brief:+all.h} $([ -n "$brief" ] || echo $headers); do
    printf '%s\n' "#include \"$header\"" "#include \"$header\"" 'int unit_is_not_empty(void);' \
        'int unit_is_not_empty(void) { return 0; }' >"$work/one.$suffix"
    if ! "$compiler" $flags -I"$include" $alone "$work/one.$suffix" -o "$work/one.o" \
        2>"$work/log"; then
        failed=$((failed + 1))
        echo "FAIL $header"
        head -20 "$work/log"
    fi
done

if [ $failed -eq 0 ]; then
    printf '%s\n' '#include "all.h"' 'int second(void);' \
        'int main(void) { return second() + (wh_status_name(WH_OK) == NULL); }' \
        >"$work/first.$suffix"
    printf '%s\n' '#include "all.h"' 'int second(void);' \
        'int second(void) { return wh_allocator_at(0) == NULL; }' >"$work/second.$suffix"
    libraries="-lm -lpthread"
    # A library with a GPU part needs the CUDA runtime, which only nvcc adds by itself.
    if [ "$kind" != nvcc ] && nm "$library" 2>/dev/null | grep -q ' U cudaGetDeviceCount'; then
        cuda=$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")
        libraries="-L$cuda/lib64 -lcudart_static -ldl -lrt -lstdc++ $libraries"
    fi
    if ! { "$compiler" $flags -I"$include" -I"$work" "$work/first.$suffix" "$work/second.$suffix" \
        "$library" $libraries -o "$work/program" && "$work/program"; }; then
        failed=$((failed + 1))
        echo "FAIL two units that include everything"
    fi
fi
# What must not compile: keys with padding. The same without shows that nothing else is wrong.
if [ "$kind" = gxx ]; then
    for b in char int; do
        echo "#include <warpheap/warpheap.hpp>
            struct key { int a; $b b; };
            extern wh::hash_map<key, int> *map;
            WH_KERNEL(put, wh::heap_ref, heap) { (void)heap; (void)map->contains({1, 2}); }" \
            >"$work/keys.cpp"
        compiles=no
        "$compiler" -std=c++17 -I"$include" -c "$work/keys.cpp" -o "$work/keys.o" \
            2>"$work/log" && compiles=yes
        if [ "$compiles:$b" != no:char ] && [ "$compiles:$b" != yes:int ]; then
            failed=$((failed + 1))
            echo "FAIL a hash_map of keys of int and $b"
            head -20 "$work/log"
        fi
    done
fi
how="alone and together"
[ -n "$brief" ] && how=together
[ $failed -eq 0 ] && echo "$(wc -w <<<"$headers") headers compile $how ($kind)"
exit $((failed != 0))
