/* atomics_o1.c: atomics.c by gcc -O1, whatever the build is made with: a simulated fetch_or lost
 * its operand there (WHI_SIM_KEEP_ in simt/sim.h). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1")
#endif
#include "sim/atomics.c"
