/* walk_theory.h: what Pham et al. (TOPC 2025) expect of a random walk: steps per thread
 * (TAS) and per warp (WAS) of N threads that each take one of A free pages among T, a step
 * looking at w pages at once. Host C11.
 *
 * A bound is infinite where the paper's is: for A = N. */
#ifndef WH_BENCH_WALK_THEORY_H
#define WH_BENCH_WALK_THEORY_H

#include <stdint.h>

/* Equations 1 and 2: a queue in which N threads meet. */
double wh_theory_queue_tas(double n);
double wh_theory_queue_was(double n);

/* Equations 3 (w = 1) and 5, as the sums that they approximate: expected TAS. */
double wh_theory_walk_tas(double t, double a, double n, uint32_t w);

/* Equation 5 supposes that the free pages stay spread evenly. The algorithm takes from a
 * random word, however few pages that has left, so words run dry sooner. This follows how
 * many words have 0..w free pages while N pages are taken; w <= 64. */
double wh_theory_words_tas(double t, double a, double n, uint32_t w);

/* Equations 4 (w = 1) and 6: upper bound of WAS. */
double wh_theory_walk_was(double t, double a, double n, uint32_t w);

/* Equation 11: steps until a warp has found 32 pages, with a share p of the pages free.
 * The integral is the mean of an inverse Gaussian law, 32 / mu = 1 / (w p): a closed form,
 * which the paper says is not known. It treats steps as continuous, so that the value can
 * be less than one step. */
double wh_theory_corw(double p, uint32_t w);

/* The same without the normal approximation: the expected number of whole steps until
 * `lanes` lanes, that look at w pages each in every step, have found `wanted` free ones. */
double wh_theory_corw_steps(double p, uint32_t w, uint32_t lanes, uint32_t wanted);

/* These steps, averaged over a kernel in which N lanes, 32 at a time, take pages of A until
 * A - N are left: what is to be expected. The paper's p = (A - N) / T throughout is a bound. */
double wh_theory_corw_mean(double t, double a, double n, uint32_t w, uint32_t lanes);

/* Equation 14 with M clusters of free pages; TAS of the walk that it falls back to. */
double wh_theory_crw(double a, double m, double walk_tas);

#endif
