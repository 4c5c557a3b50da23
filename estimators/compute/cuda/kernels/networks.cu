// The elementwise parts of a tanh network's passes and of a Gaussian policy's score.

#include "grid.h"

// k_tanh: CUDA's tanh is within 2 units in the last place over the whole range.
extern "C" __global__ void k_tanh(double *z, long long zs, const double *bias, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) z[i * zs + j] = tanh(z[i * zs + j] + bias[j]);
}

extern "C" __global__ void k_tanh_grad(double *d, long long ds, const double *h, long long hs, long long n,
                                       long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) {
        const double v = h[i * hs + j];
        d[i * ds + j] *= 1 - v * v;
    }
}

// k_gaussian_scores: mean and log_std may be x and mu, which are read first.
extern "C" __global__ void k_gaussian_scores(double *mean, long long ms, double *log_std, long long ls, const double *x,
                                             long long xs, const double *mu, long long us, const double *log_sigma,
                                             long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) {
        const double inverse = exp(-log_sigma[j]);
        const double e = (x[i * xs + j] - mu[i * us + j]) * inverse;
        mean[i * ms + j] = e * inverse;
        log_std[i * ls + j] = e * e - 1;
    }
}
