#!/bin/bash
# layout.sh: the layout hashes tell headers whose packed words differ. Each change below gives
# another hash, so wh_heap_handle, or wh_graph_handle, refuses a program that was compiled with it.
#
#   layout.sh COMPILER INCLUDE
set -u
compiler=$1 include=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/hash.c" <<'END'
#include <stdio.h>
#include "warpheap/graph_device.h"
int main(void) {
    return printf("%llx %llx\n", (unsigned long long)wh_tessera_layout(),
                  (unsigned long long)wh_lattice_layout()) < 0;
}
END

# Prints the hashes of the headers in a folder. The inline calls of the host are not linked.
hash_of() {
    "$compiler" -std=gnu11 -O1 -w -I "$1" -c "$work/hash.c" -o "$work/hash.o" &&
        "$compiler" "$work/hash.o" -o "$work/hash" -Wl,--unresolved-symbols=ignore-all &&
        "$work/hash"
}

ours=$(hash_of "$include") || exit 1
failed=0
# FILE SED: a change of one of the headers.
while read -r file change; do
    rm -rf "$work/include"
    cp -r "$include" "$work/include"
    at=$work/include/warpheap/detail/$file
    sed -i -E "$change" "$at"
    if cmp -s "$at" "$include/warpheap/detail/$file"; then
        echo "nothing changed in $file: $change" >&2
        failed=1
    elif ! other=$(hash_of "$work/include"); then
        failed=1
    elif [ "$other" = "$ours" ]; then
        echo "not noticed in $file: $change" >&2
        failed=1
    fi
done <<'END'
alloc/tessera/tag.h s/(TESSERA_SLAB) 1u/\1 9u/;s/(TESSERA_RUN) 2u/\1 1u/;s/(TESSERA_SLAB) 9u/\1 2u/
alloc/tessera/tag.h s/<< 15 \| c << 2/<< 16 | c << 2/
alloc/tessera/tag.h s/(TESSERA_RETIRING) \(1u << 30/\1 (1u << 29/
alloc/tessera/size_class.h s/(TESSERA_NO_CLASS) 127u/\1 125u/
alloc/tessera/size_class.h s/(TESSERA_WORD_SLOTS) 56u/\1 48u/
alloc/tessera/layout.h s/(TESSERA_FIRST_SLOTS) 12288u/\1 8192u/
alloc/tessera/layout.h s/(TRACKS_PEAK) 1u/\1 4u/
graph/lattice.h s/^(    uint32_t) capacity;/\1 more, capacity;/
graph/lattice.h s/\(degree >> 3\) \+ 3/(degree >> 2) + 3/
graph/lattice.h s/0x11236u/0x11235u/
version.h s/(VERSION_MINOR) ([0-9]+)/\1 9/
END
exit $failed
