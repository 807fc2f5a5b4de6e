/* structs.h: structures that callers fill. */
#ifndef WHI_STRUCTS_H
#define WHI_STRUCTS_H

#include <stddef.h>

#include "warpheap/types.h"

/* A structure of the caller's as this library knows it: what one from older headers lacks is 0. It
 * begins with its size, where 0 stands for `bytes`. WRONG_BUILD. */
wh_status whi_take_struct(void *own, size_t own_bytes, const void *theirs, size_t bytes);

#endif
