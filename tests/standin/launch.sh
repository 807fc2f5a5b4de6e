#!/bin/bash
# launch.sh: builds launch.cu with nvcc, over the stand-in instead of a CUDA runtime, and runs it.
#
#   launch.sh <nvcc> <C compiler> <source folder> <static library>
#
# device.c and device_cuda.c come first, as built for CUDA; the library gives the rest.
set -eu
nvcc=$1 cc=$2 source=$3 library=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
for file in src/host/device.c src/cuda/device_cuda.c tests/standin/{runtime,driver,launches}.c; do
    "$cc" -std=gnu11 -O1 -DWH_HAVE_CUDA=1 -Itests/standin -Iinclude -Isrc -c "$file" \
        -o "$work/$(basename "$file").o"
done
"$nvcc" -std=c++17 -arch=sm_90 -Ofc max -cudart none -Iinclude -Itests/standin \
    tests/standin/launch.cu "$work"/*.o "$library" -lpthread -lm -o "$work/launch"
"$work/launch"
