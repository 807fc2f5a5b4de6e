/* narrow.cu: a second copy of the functions, compiled with -maxrregcount=40. */
#define PROBE_PREFIX probe_narrow_
#include "rename.h"

#include "device/abi.c"
