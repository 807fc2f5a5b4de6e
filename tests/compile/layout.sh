#!/bin/bash
# layout.sh: the layout hash tells headers whose packed words differ. Each change below gives
# another hash, so wh_heap_handle refuses a program that was compiled with it.
#
#   layout.sh COMPILER INCLUDE
set -u
compiler=$1 include=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/hash.c" <<'END'
#include <stdio.h>
#include "warpheap/warpheap.h"
int main(void) { return printf("%llx\n", (unsigned long long)wh_tessera_layout()) < 0; }
END

# Prints the hash of the headers in a folder. The inline calls of the host are not linked.
hash_of() {
    "$compiler" -std=gnu11 -O1 -w -I "$1" -c "$work/hash.c" -o "$work/hash.o" &&
        "$compiler" "$work/hash.o" -o "$work/hash" -Wl,--unresolved-symbols=ignore-all &&
        "$work/hash"
}

ours=$(hash_of "$include") || exit 1
failed=0
# FILE SED: a change of one of tessera's headers.
while read -r file change; do
    rm -rf "$work/include"
    cp -r "$include" "$work/include"
    at=$work/include/warpheap/detail/alloc/tessera/$file
    sed -i -E "$change" "$at"
    if cmp -s "$at" "$include/warpheap/detail/alloc/tessera/$file"; then
        echo "nothing changed in $file: $change" >&2
        failed=1
    elif ! other=$(hash_of "$work/include"); then
        failed=1
    elif [ "$other" = "$ours" ]; then
        echo "not noticed in $file: $change" >&2
        failed=1
    fi
done <<'END'
tag.h s/(TESSERA_SLAB) 1u/\1 9u/;s/(TESSERA_RUN) 2u/\1 1u/;s/(TESSERA_SLAB) 9u/\1 2u/
tag.h s/<< 15 \| c << 2/<< 16 | c << 2/
tag.h s/(TESSERA_RETIRING) \(1u << 30/\1 (1u << 29/
size_class.h s/(TESSERA_NO_CLASS) 127u/\1 125u/
size_class.h s/(TESSERA_WORD_SLOTS) 56u/\1 48u/
layout.h s/(TESSERA_FIRST_SLOTS) 12288u/\1 8192u/
layout.h s/(TRACKS_PEAK) 1u/\1 4u/
END
exit $failed
