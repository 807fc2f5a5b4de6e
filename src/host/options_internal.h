/* options_internal.h: a heap's options, as the files of the library share them. */
#ifndef WHI_OPTIONS_INTERNAL_H
#define WHI_OPTIONS_INTERNAL_H

#include "warpheap/heap.h"
#include "warpheap/options.h"

/* The caller's options for a heap of this allocator, as this library knows them: what an older
 * caller's struct lacks is 0, and so is everything where `from` is NULL. BAD_ARGUMENT: of another
 * family, or of a size that no release had. */
wh_status whi_options_read(wh_any_options *to, const wh_options_head *from,
                           const wh_allocator_info *info);

/* The value of an option of the family; 0 if it has none of that name. */
uint64_t whi_option_value(const wh_any_options *options, const char *name);

/* "tessera.chunk_bytes=3, ..." of the options that are not 0. */
void whi_options_text(const wh_any_options *options, char *text, size_t room);

#endif
