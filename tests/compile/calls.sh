#!/bin/bash
# calls.sh: compiles tests/compile/calls.cu in each way that its calls can be compiled, with
# warnings as errors, links it with the library and runs it on the CPU.
#
#   calls.sh <gxx|nvcc> <compiler> <include folder> <static library>
set -u
kind=$1 compiler=$2 include=$3 library=$4
source=$(cd "$(dirname "$0")" && pwd)/calls.cu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# (wh_launch is filled by position, and fields are left out, as users do.)
warnings="-Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wconversion -Werror"
case $kind in
gxx)
    flags="-x c++ -Wundef $warnings"
    standards="11 20" libraries="-x none $library -lm -lpthread"
    ;;
nvcc)
    # -Ofc: what the machine code is like does not matter here, how long it takes does.
    flags="-arch=sm_90 -Ofc max -Werror all-warnings -Xcompiler=${warnings// /,}"
    standards="11 20" libraries="$library"
    ;;
*) echo "unknown kind $kind" >&2 && exit 2 ;;
esac
if [ "$kind" = gxx ] && nm "$library" 2>/dev/null | grep -q ' U cudaGetDeviceCount'; then
    cuda=$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")
    libraries="$libraries -L$cuda/lib64 -lcudart_static -ldl -lrt -lstdc++"
fi

failed=0
for standard in $standards; do
    for option in PLAIN WH_OOM_TRAP EVENTS; do
        # Plain once, the others with one standard each: nvcc takes seconds for each.
        case $standard.$option in 11.WH_OOM_TRAP | 20.EVENTS | 20.PLAIN) continue ;; esac
        if ! "$compiler" -std=c++$standard $flags -D$option -I"$include" "$source" $libraries \
            -o "$work/program" 2>"$work/log"; then
            echo "FAIL c++$standard $option does not compile" && head -20 "$work/log"
            failed=1
        elif [ $option != WH_OOM_TRAP ] || [ "$kind" = nvcc ]; then
            "$work/program" || { echo "FAIL c++$standard $option" && failed=1; }
        fi
    done
done
[ $failed -eq 0 ] && echo "device calls of C++ compile, and run on the CPU ($kind)"
exit $failed
