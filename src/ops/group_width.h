/* group_width.h: a group-by's code for one width of keys and one of values: KEY_BITS, VALUE_BITS.
 * Included by group_kernels.c for each pair of them. */
#include "group_rows.h"
#include "group_table.h"
#include "group_steps.h"
#include "group_two_pass.h"

#undef KEY_BITS
#undef VALUE_BITS
