#!/bin/bash
# run.sh: builds a consumer in one of the documented ways and runs it.
#
#   run.sh <find_package|pkgconfig|subdirectory> <installed prefix> <work folder>
#          <cmake> <C compiler>
set -eu
way=$1 prefix=$2 work=$3 cmake=$4 cc=$5
here=$(cd "$(dirname "$0")" && pwd)
# A jobserver of the make that runs the tests is not for these builds.
unset MAKEFLAGS MFLAGS MAKELEVEL
rm -rf "$work"
mkdir -p "$work"

case $way in
find_package)
    "$cmake" -S "$here/find_package" -B "$work" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
    "$cmake" --build "$work"
    "$work/consumer_static"
    "$work/consumer_shared"
    ;;
subdirectory)
    "$cmake" -S "$here/subdirectory" -B "$work" -DCMAKE_C_COMPILER="$cc" -DWARPHEAP_CUDA=OFF
    "$cmake" --build "$work" --parallel 2
    "$work/consumer"
    ;;
pkgconfig)
    PKG_CONFIG_PATH=$(find "$prefix" -type d -name pkgconfig)
    export PKG_CONFIG_PATH
    # Shared (the linker's choice where both lie side by side), then static.
    libdir=$(pkg-config --variable=libdir warpheap)
    "$cc" -std=c11 "$here/consumer.c" $(pkg-config --cflags --libs warpheap) \
        -Wl,-rpath,"$libdir" -o "$work/shared"
    "$work/shared"
    "$cc" -std=c11 "$here/consumer.c" $(pkg-config --cflags warpheap) \
        $(pkg-config --libs --static warpheap | sed 's/-lwarpheap/-l:libwarpheap.a/') -o "$work/static"
    "$work/static"
    ;;
*)
    echo "unknown way $way" >&2
    exit 2
    ;;
esac
