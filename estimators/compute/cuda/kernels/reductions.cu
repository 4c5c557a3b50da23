// Sums and extremes. A sum over many elements is taken in two stages, the partial sums of
// blocks and then their sum: how many blocks there are, and which elements a thread adds
// up in which order, follows from the shapes, so a sum is the same bits from run to run
// and from device to device. Nothing is added atomically.

#include "grid.h"

// k_dot sets each block's partial to its share of the sum of x*y.
extern "C" __global__ void k_dot(double *partial, const double *x, long long xs, const double *y, long long ys,
                                 long long n, long long k) {
    __shared__ double sum[THREADS];
    double s = 0;
    EACH_ROW(i, n) EACH_COL(j, k) s += x[i * xs + j] * y[i * ys + j];
    sum[thread()] = s;
    tree(sum, 1);
    if (thread() == 0) partial[(long long)blockIdx.y * gridDim.x + blockIdx.x] = sum[0];
}

// k_row_dots: a row of threads for a row of a and b, every row of the matrices once.
extern "C" __global__ void k_row_dots(double *d, long long ds, const double *a, long long as, const double *b,
                                      long long bs, double beta, long long n, long long k) {
    __shared__ double sum[THREADS];
    const long long first = (long long)blockIdx.x * blockDim.y, i = first + threadIdx.y;
    double s = 0;
    if (i < n)
        for (long long j = threadIdx.x; j < k; j += blockDim.x) s += a[i * as + j] * b[i * bs + j];
    sum[threadIdx.x * blockDim.y + threadIdx.y] = s;
    tree(sum, blockDim.y);
    const int t = thread();
    if (t < (int)blockDim.y && first + t < n) {
        double *to = d + (first + t) * ds;
        *to = beta == 0 ? sum[t] : beta * *to + sum[t];
    }
}

// k_sum_rows sets row c of d to the sum of the c-th height rows of x; c is blockIdx.y.
extern "C" __global__ void k_sum_rows(const double *x, long long xs, long long height, long long n, long long k,
                                      double *d, long long ds) {
    __shared__ double sum[THREADS];
    const long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x, low = blockIdx.y * height;
    const long long high = low + height < n ? low + height : n;
    double s = 0;
    if (j < k)
        for (long long i = low + threadIdx.y; i < high; i += blockDim.y) s += x[i * xs + j];
    sum[thread()] = s;
    tree(sum, blockDim.x);
    if (threadIdx.y == 0 && j < k) d[blockIdx.y * ds + j] = sum[threadIdx.x];
}

// k_col_dots is k_sum_rows of x*y.
extern "C" __global__ void k_col_dots(const double *x, long long xs, const double *y, long long ys, long long height,
                                      long long n, long long k, double *d, long long ds) {
    __shared__ double sum[THREADS];
    const long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x, low = blockIdx.y * height;
    const long long high = low + height < n ? low + height : n;
    double s = 0;
    if (j < k)
        for (long long i = low + threadIdx.y; i < high; i += blockDim.y) s += x[i * xs + j] * y[i * ys + j];
    sum[thread()] = s;
    tree(sum, blockDim.x);
    if (threadIdx.y == 0 && j < k) d[blockIdx.y * ds + j] = sum[threadIdx.x];
}

// An extreme is a value and its place in row-major order. Places are exact as doubles up
// to 2^53.
struct extreme {
    double value, place;
};

// The first of the smallest, of the largest. Comparisons with NaN are false: one is kept
// only where all threads start from it, as the first element, and never taken up later.
static __device__ bool lower(extreme a, extreme b) {
    return a.value < b.value || (a.value == b.value && a.place < b.place);
}

static __device__ bool higher(extreme a, extreme b) {
    return a.value > b.value || (a.value == b.value && a.place < b.place);
}

// least_and_greatest sets to[0..3] to the value and place of the least of the threads'
// lows and of the greatest of their highs.
static __device__ void least_and_greatest(double *to, extreme low, extreme high) {
    __shared__ double value[2][THREADS], place[2][THREADS];
    const int t = thread();
    for (int half = THREADS; half >= 1; half /= 2) {
        if (t < half) {
            value[0][t] = low.value, place[0][t] = low.place;
            value[1][t] = high.value, place[1][t] = high.place;
        }
        __syncthreads();
        if (t < half / 2) {
            const extreme a = {value[0][t + half / 2], place[0][t + half / 2]};
            const extreme b = {value[1][t + half / 2], place[1][t + half / 2]};
            if (lower(a, low)) low = a;
            if (higher(b, high)) high = b;
        }
        __syncthreads();
    }
    if (t == 0) to[0] = low.value, to[1] = low.place, to[2] = high.value, to[3] = high.place;
}

// k_extremes sets each block's four numbers of partial. x is not empty.
extern "C" __global__ void k_extremes(double *partial, const double *x, long long xs, long long n, long long k) {
    extreme low = {x[0], 0}, high = low;
    EACH_ROW(i, n) EACH_COL(j, k) {
        const extreme e = {x[i * xs + j], (double)(i * k + j)};
        if (lower(e, low)) low = e;
        if (higher(e, high)) high = e;
    }
    least_and_greatest(partial + 4 * ((long long)blockIdx.y * gridDim.x + blockIdx.x), low, high);
}

// k_extremes_of sets d to the extremes of count blocks' extremes: a single block.
extern "C" __global__ void k_extremes_of(double *d, const double *partial, long long count) {
    extreme low = {partial[0], partial[1]}, high = {partial[2], partial[3]};
    for (long long i = thread(); i < count; i += THREADS) {
        const double *p = partial + 4 * i;
        const extreme a = {p[0], p[1]}, b = {p[2], p[3]};
        if (lower(a, low)) low = a;
        if (higher(b, high)) high = b;
    }
    least_and_greatest(d, low, high);
}
