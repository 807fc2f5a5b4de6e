# migrate.sed: turns a source file that was written for warpheap 0.1 into one for 0.2, as far as
# words go. CHANGELOG.md says what each of these changes is, and what is left to do by hand.
#
#     sed -z -i -f migrate.sed FILE...
#
# Of wh_tuning it does the fields that one family had alone; the compiler shows the others. -z: a
# file is one line.

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

# the full mask
s/\b0[xX][fF]\{8\}[uU]\?\([,)]\)/WH_FULL_WARP\1/g

# options: where a heap's options are tuned, they have room beside them, and are set by name
s/\(#include <warpheap\/warpheap\.h>\)\(.*\.tuning\.\)/\1\n#include <warpheap\/options.h>\2/
s/\( *\)\(wh_heap_options \([A-Za-z_]*\) = {0\?};\)\(.*\3\.tuning\.\)/\1\2\n\1static wh_any_options \3_own;\4/
s/\b\([A-Za-z_]*\)\.tuning\.\(segment_bytes\|min_slice_bytes\|max_slice_bytes\|slices_per_block\) = \([^;]*\);/(void)wh_options_set(\&\1_own, "gallatin.\2", \3);\n    \1.options = \&\1_own.head;/g
s/\b\([A-Za-z_]*\)\.tuning\.\(queue_entries\|linear_bytes\) = \([^;]*\);/(void)wh_options_set(\&\1_own, "ouroboros.\2", \3);\n    \1.options = \&\1_own.head;/g
s/\b\([A-Za-z_]*\)\.tuning\.\(track_peak\|track_totals\) = \([^;]*\);/(void)wh_options_set(\&\1_own, "tessera.\2", \3);\n    \1.options = \&\1_own.head;/g
s/\b\([A-Za-z_]*\)\.tuning\.unit_bytes = \([^;]*\);/(void)wh_options_set(\&\1_own, "rwmalloc.unit_bytes", \2);\n    \1.options = \&\1_own.head;/g
s/\b\([A-Za-z_]*\)\.tuning\.exact_oom = \([^;]*\);/(void)wh_options_set(\&\1_own, "random_walk.exact_oom", \2);\n    \1.options = \&\1_own.head;/g
