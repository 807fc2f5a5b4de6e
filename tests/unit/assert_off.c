/* assert_off.c: what a release does: no assertion is evaluated. */
#define WH_ASSERTS_HERE 0
#include "unit/assert.c"
