#!/bin/bash
# kernel.sh: examples/kernel.rs does what it says: on the simulated device, or, with nvcc, its
# kernels are compiled, and run on a GPU.
#
#   kernel.sh <build folder of the library> <cargo> [<nvcc> <architectures of the build>]
#
# Exit status 77: there is no GPU (the kernels have compiled), or no device code for this one.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$1 cargo=$2 nvcc=${3:-} built=${4:-}
example() {
    WARPHEAP_LIB_DIR=$build "$cargo" run --offline --quiet --target-dir "$build/tests/rust" \
        --manifest-path "$source/rust/Cargo.toml" --example kernel -- "$@"
}
if [ -z "$nvcc" ]; then
    example sim
    if example no_such_device 2>/dev/null; then
        echo "FAIL: a device that is not there was opened"
        exit 1
    fi
    exit 0
fi
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 || true)
arch=sm_$(tr -d . <<<"${arch:-9.0}")
code=$build/warpheap_abi.fatbin
if [ ! -f "$code" ] || ! grep -qw -e "${arch#sm_}" -e native <<<"$built"; then
    echo "skipped: there is no $code, or it is for $built and not for $arch"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -rdc=true "-arch=$arch" -cubin "-I$source/include" "$source/rust/examples/kernel.cu" \
    -o "$work/part.cubin"
"$nvcc" -dlink "-arch=$arch" -cubin "$work/part.cubin" "$code" \
    -o "$work/kernel.cubin"
example cuda "$work/kernel.cubin"
