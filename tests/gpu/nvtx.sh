#!/bin/bash
# nvtx.sh: what compute-sanitizer says of mistakes in a heap whose blocks are registered.
#
#   tests/gpu/nvtx.sh BUILD
#
# Exit status 77: there is no compute-sanitizer, no GPU, or a library without NVTX.
set -u
program=${1:?build folder}/tests/gpu_nvtx
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

command -v compute-sanitizer >/dev/null 2>&1 || {
    echo "skipped: there is no compute-sanitizer"
    exit 77
}

# Whether memcheck ends with 9, an error, and says this of it.
run() {
    local mistake=$1 wanted=$2 pattern=$3 status
    compute-sanitizer --tool memcheck --nvtx yes --error-exitcode 9 "$program" "$mistake" \
        >"$log" 2>&1
    status=$?
    if [ $status -eq 77 ]; then
        cat "$log"
        exit 77
    fi
    if [ $status -ne "$wanted" ] || ! grep -qE "$pattern" "$log"; then
        echo "FAIL $mistake: exit status $status, not $wanted, or nothing like '$pattern':"
        head -40 "$log"
        failed=1
    else
        echo "$mistake: $(grep -E -m 1 "$pattern" "$log")"
    fi
}

run none 0 'ERROR SUMMARY: 0 errors'
run plain 0 'ERROR SUMMARY: 0 errors'
run overrun 9 'Invalid __global__ write of size 1'
run underrun 9 'Invalid __global__ write of size 1'
run freed 9 'Invalid __global__ read of size 1'
run read 9 'Invalid __global__ read of size 1'
exit $failed
