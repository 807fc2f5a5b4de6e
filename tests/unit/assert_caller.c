/* assert_caller.c: a file that checks what its calls have to see to, and nothing else. */
#define WH_ASSERTS_HERE 1
#include "unit/assert.c"
