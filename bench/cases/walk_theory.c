/* walk_theory.c: see walk_theory.h. */
#include "bench/cases/walk_theory.h"

#include <math.h>

#define LANES 32.0
#define TINY 1e-9 /* terms below this end a sum that converges geometrically */

double wh_theory_queue_tas(double n) {
    return (n + 1) / 2;
}

/* The paper's equation 2 is the Faulhaber form of this sum: the expectation of the largest
 * of 32 uniform positions in 1..N is N - sum of (k / N)^32 over k = 0..N-1. */
double wh_theory_queue_was(double n) {
    double sum = 0;
    for (double k = 0; k < n; k++) {
        sum += pow(k / n, LANES);
    }
    return n - sum;
}

/* The chance that a step finds nothing when `a` of `t` pages are free. */
static double miss(double t, double a, uint32_t w) {
    return pow(1 - a / t, w);
}

double wh_theory_walk_tas(double t, double a, double n, uint32_t w) {
    double sum = 0;
    for (double j = 0; j < n; j++) {
        sum += 1 / (1 - miss(t, a - j, w));
    }
    return sum / n;
}

/* n log(x), which is 0 for n = 0 whatever x is; x is 1 + y, y near 0. */
static double times_log1p(double n, double y) {
    return n > 0 ? n * log1p(y) : 0;
}

double wh_theory_words_tas(double t, double a, double n, uint32_t w) {
    double share[65]; /* of the words, by how many of their pages are free */
    const double words = t / w, p = a / t;
    const uint32_t parts = n < 4096 ? (uint32_t)n : 4096;
    double sum = 0;
    for (uint32_t f = 0; f <= w; f++) {
        share[f] = exp(lgamma(w + 1.0) - lgamma(f + 1.0) - lgamma(w - f + 1.0) + f * log(p) +
                       times_log1p(w - f, -p));
    }
    for (uint32_t i = 0; i < parts; i++) { /* n / parts pages at a time */
        const double hit = 1 - share[0];
        const double taken = n / parts / words / hit; /* per word that has some */
        sum += 1 / hit;
        for (uint32_t f = 1; f <= w; f++) {
            const double moves = share[f] * (taken < 1 ? taken : 1);
            share[f] -= moves;
            share[f - 1] += moves;
        }
    }
    return sum / parts;
}

double wh_theory_walk_was(double t, double a, double n, uint32_t w) {
    const double q = miss(t, a - n, w);
    double sum = 0, keep = 1; /* keep = q^k */
    if (a <= n) {
        return INFINITY;
    }
    for (double term = 1; term > TINY; keep *= q) {
        term = 1 - pow(1 - keep, LANES);
        sum += term;
    }
    return sum;
}

double wh_theory_corw(double p, uint32_t w) {
    return p > 0 ? 1 / (w * p) : INFINITY;
}

double wh_theory_corw_steps(double p, uint32_t w, uint32_t lanes, uint32_t wanted) {
    double steps = 0;
    if (p <= 0) {
        return INFINITY;
    }
    /* E[B] = sum over i of P(fewer than `wanted` among i * lanes * w trials). */
    for (double i = 0;; i++) {
        const double trials = i * lanes * w;
        double below = 0;
        for (uint32_t k = 0; k < wanted && k <= trials; k++) {
            const double log_choose = lgamma(trials + 1) - lgamma(k + 1.0) - lgamma(trials - k + 1);
            below += exp(log_choose + k * log(p) + times_log1p(trials - k, -p));
        }
        steps += below;
        if (below < TINY) {
            return steps;
        }
    }
}

double wh_theory_corw_mean(double t, double a, double n, uint32_t w, uint32_t lanes) {
    const uint32_t parts = n / lanes < 64 ? (uint32_t)(n / lanes) : 64;
    double sum = 0;
    for (uint32_t i = 0; i < parts; i++) { /* in the middle of each part */
        sum += wh_theory_corw_steps((a - n * (i + 0.5) / parts) / t, w, lanes, lanes);
    }
    return parts != 0 ? sum / parts : wh_theory_corw_steps(a / t, w, lanes, lanes);
}

double wh_theory_crw(double a, double m, double walk_tas) {
    return 1 + (m - 1) / (a + m - 1) * walk_tas;
}
