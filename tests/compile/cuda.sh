#!/bin/bash
# cuda.sh: the examples in CUDA C++, which are the kinds of kernels that people write, compile
# without a warning and link with a library, by nvcc alone, for one architecture. A program
# that finds a GPU must succeed, one without must exit with 77.
#
#   cuda.sh <nvcc> <include folder> <static library> <examples folder> <library of graphs> \
#           <library of operators> [brief]
#
# brief: those alone that differ most: one file, several files, a library beside it, containers.
# -Ofc max: only whether it compiles and links matters, and a kernel with a malloc takes six
# times as long without.
set -u
nvcc=$1 include=$2 library=$3 examples=$4 graph=$5 ops=$6 brief=${7:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quick=
"$nvcc" --help | grep -q -e '-Ofc' && quick="-Ofc max"
flags="-arch=sm_90 $quick -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror -I$include"
failed=0

# try <C++ standard> "<more flags>" <file...>
try() {
    local standard=$1 more=$2 name status
    shift 2
    name=$(basename "$1" .cu)
    case ${brief:+$name} in
    '' | cuda_01_plain | cuda_06_files | cuda_13_dynamic_graph | 20_containers) ;;
    *) return ;;
    esac
    if ! (cd "$examples" && "$nvcc" -std=c++"$standard" $flags $more "$@" "$library" \
        -o "$work/$name") >"$work/log" 2>&1; then
        failed=$((failed + 1))
        echo "FAIL $name does not compile and link as C++$standard"
        head -20 "$work/log"
        return
    fi
    "$work/$name" >"$work/log" 2>&1
    status=$?
    if [ $status -ne 0 ] && [ $status -ne 77 ]; then
        failed=$((failed + 1))
        echo "FAIL $name: exit status $status"
        head -20 "$work/log"
    fi
    rm -f "$work/$name"
}

# The three standards are spread over the kinds: all of each would take minutes.
try 14 "" cuda_01_plain.cu
try 20 "" cuda_02_shapes.cu
try 17 "--extended-lambda" cuda_03_lambda.cu
try 17 "" cuda_04_tiles.cu
try 14 "" cuda_05_graph.cu
try 20 "-rdc=true" cuda_06_files.cu cuda_06_files_table.cu
try 17 "-rdc=true" cuda_07_kernels_start_kernels.cu
try 14 "" cuda_08_malloc_replaced.cu
try 20 "" cuda_09_vector.cu
try 17 "" cuda_10_out_of_memory.cu
try 14 "" cuda_11_devices.cu
try 17 "" cuda_12_pool.cu
try 14 "" cuda_13_dynamic_graph.cu "$graph"
try 17 "" cuda_14_tables.cu "$ops"
try 14 "" cuda_15_memory.cu
try 17 "" cuda_16_rmm.cu
try 17 "" cuda_17_nvshmem.cu
device=$examples/../src/device
[ -n "$brief" ] || "$nvcc" -std=c++17 $flags -rdc=true -c "$device/abi.cu" -o "$work/abi.o"
try 17 "-rdc=true" cuda_18_abi.cu "$work/abi.o"
try 17 "-include warpheap/warpheap_replace.h" cuda_19_malloc_included.cu
try 17 "" cuda_20_peers.cu

# Those in C++ are for both kinds of device.
for file in 14:20_containers 20:21_work_queue 17:22_hash_map; do
    name=${file#*:}
    echo "#include \"$examples/$name.cpp\"" >"$work/$name.cu"
    try "${file%%:*}" "" "$work/$name.cu"
done

# None is forgotten here: each example is named above.
for file in "$examples"/cuda_*.cu; do
    if ! grep -q "^try .*$(basename "$file")" "$0"; then
        failed=$((failed + 1))
        echo "FAIL $(basename "$file") is not in cuda.sh"
    fi
done
[ $failed -eq 0 ]
