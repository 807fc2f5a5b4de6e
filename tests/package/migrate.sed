# migrate.sed: turns a source file that was written for warpheap 0.1 into one for 0.2, as far as
# words go. CHANGELOG.md says what each of these changes is, and what is left to do by hand.
#
#     sed -z -i -f migrate.sed FILE...
#
# Of wh_tuning it does the fields that one family had alone, in `NAME.tuning.FIELD = VALUE;` behind
# `wh_heap_options NAME = {0};` or `{}`. The compiler shows the others, which stay as they are.
# wh_heap_create refuses an object with fields of two families: each heap needs its own object.
# A second run changes nothing. -z: a file is one line.

# handles, masks
s/\bwh_heap_t\b/wh_heap_ref/g
s/\bwh_mask_t\b/wh_mask/g
s/\bwh_\(tessera\|null\|floor\|floor_plain\|bump\|bump_plain\|cuda\|gallatin\|page_queue\|rwmalloc\)_t\b/wh_\1_ref/g
s/\bwh_\(rw\|rw_bm\|corw\|crw\|ouro_[a-z_]*\|awmalloc\|cmalloc\|cfmalloc\|cmmalloc\|cfmmalloc\)_t\b/wh_\1_ref/g

# headers
s#\(["<]warpheap/\)simt/simt\.h#\1simt.h#g
s#\(["<]warpheap/\)alloc/#\1detail/alloc/#g
s#\(["<]warpheap/core/\)bulksem\.h#\1bulk_semaphore.h#g
s#\(["<]warpheap/core/\)chunkpool\.h#\1chunk_pool.h#g
s#\(["<]warpheap/core/\)group\.h#\1warp_group.h#g
s#\(["<]warpheap/core/\)kth_bit\.h#\1select.h#g
s#\(["<]warpheap/core/\)sizeclass\.h#\1size_class.h#g
s/\bwh_bulksem_/wh_bulk_semaphore_/g
s/\bwh_chunkpool_take_t\b/wh_chunk_pool_taken/g
s/\bwh_chunkpool\(_\|\b\)/wh_chunk_pool\1/g
s/\bwh_kth_bit32\b/wh_select32/g

# the full mask, where it is an argument of a call of warpheap
:mask
s/\(\bwh_[a-z_0-9]*(\(\([^();]\|([^();]*)\)*,\)\?[ \n]*\)0[xX][fF]\{8\}[uU]\?\([ \n]*[,)]\)/\1WH_FULL_WARP\4/
t mask

# options: where a heap's options are tuned, they have room beside them, and are set by name
/warpheap\/options\.h/!s/\(#include <warpheap\/warpheap\.h>\)\(.*\.tuning\.\)/\1\n#include <warpheap\/options.h>\2/
s/\.tuning\.\(segment_bytes\|min_slice_bytes\|max_slice_bytes\|slices_per_block\) *= *\([^=]\)/.tuning."gallatin.\1" \2/g
s/\.tuning\.\(queue_entries\|linear_bytes\) *= *\([^=]\)/.tuning."ouroboros.\1" \2/g
s/\.tuning\.\(track_peak\|track_totals\) *= *\([^=]\)/.tuning."tessera.\1" \2/g
s/\.tuning\.\(unit_bytes\) *= *\([^=]\)/.tuning."rwmalloc.\1" \2/g
s/\.tuning\.\(exact_oom\) *= *\([^=]\)/.tuning."random_walk.\1" \2/g
# The last declaration with such a statement behind it, and its last statement, until there are
# none. \x01: a declaration that has its room.
:tune
s/^\(.*\bwh_heap_options \([A-Za-z_][A-Za-z_0-9]*\) = {0\?};\x01.*[^.>A-Za-z_0-9]\)\2\.tuning\.\("[a-z_.]*"\) \([^;]*\);/\1{ \2.options = \&\2_own.head; if (wh_options_set(\&\2_own, \3, \4) != WH_OK) { \2_own.head.family = "two families"; } }/
t tune
s/^\(.*\n\)\( *\)\(static \)\?\(wh_heap_options \([A-Za-z_][A-Za-z_0-9]*\) = \({0\?};\)\)\([^\x01].*[^.>A-Za-z_0-9]\5\.tuning\."\)/\1\2\3\4\x01\n\2\3wh_any_options \5_own = \6\7/
t tune
s/\x01//g
s/\.tuning\."[a-z_]*\.\([a-z_]*\)" /.tuning.\1 = /g
