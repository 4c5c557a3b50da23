// The elementwise and gather kernels of the CPU backend. All matrices are
// row-major; x_s is the stride of x, the distance between rows in elements. Each
// function runs in the calling thread and sums in a fixed order.
#ifndef DBQPG_KERNELS_H
#define DBQPG_KERNELS_H

#include <stdint.h>

#include <cblas.h>

// c = alpha a b + beta c, m x n, a and b with k terms, or transposed: cblas_dgemm in the parts in which it is fastest.
void k_gemm(enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, long m, long n, long k, double alpha, const double *a, long as,
            const double *b, long bs, double beta, double *c, long cs);
void k_fill(double *x, long xs, long n, long k, double v);
// d = alpha x + beta d + shift; a stride of 0 reads the same row of x again and again.
void k_affine(double *d, long ds, double alpha, const double *x, long xs, double beta, double shift, long n, long k);
// d = w x + beta d; w's elements are wc apart: 1, or 0 where w is a column.
void k_mul(double *d, long ds, const double *w, long ws, long wc, const double *x, long xs, double beta, long n, long k);
double k_dot(const double *x, long xs, const double *y, long ys, long n, long k);
void k_row_dots(double *d, long ds, const double *a, long as, const double *b, long bs, double beta, long n, long k);
void k_sum_rows(double *d, const double *x, long xs, long n, long k);
void k_col_dots(double *d, const double *x, long xs, const double *y, long ys, long n, long k);
void k_tanh(double *z, long zs, const double *bias, long n, long k);
void k_tanh_grad(double *d, long ds, const double *h, long hs, long n, long k);
void k_interpolate(double *d, long ds, const double *z, long zs, const double *table, long ts, double low,
                   double step, long m, long n, long r);
void k_interpolate_trans(double *d, long ds, const double *z, long zs, const double *x, long xs, double low,
                         double step, long m, long n, long r);
void k_interpolate_grad(double *d, long ds, const double *z, long zs, const double *table, long ts, const double *c,
                        long cs, double low, double step, long m, long n, long r);
// Columns i and j of z make block (i, j) of W'W; they add to the gradient's column i.
void k_interpolate_gram(double *d, long ds, const double *zi, const double *zj, long zs, double low, double step,
                        long m, long n);
void k_interpolate_gram_grad(double *d, long ds, const double *zi, const double *zj, long zs, const double *table,
                             long ts, double low, double step, long m, long n);
void k_group_outer(double *dst, long dsts, const double *d, long ds, const double *h, long hs, const int32_t *order,
                   const int32_t *bounds, const double *signs, long lo, long hi, long dk, long hk, double *scratch);
void k_group_sum(double *dst, long dsts, const double *x, long xs, const int32_t *order, const int32_t *bounds,
                 const double *signs, long lo, long hi, long k);

#endif
