// Sums over groups of rows. A group's rows lie anywhere in the batch; one block of threads
// reads them in the group's order.

#include "grid.h"

// A block of 16 x 16 threads makes a TILE x TILE tile of a group's sum of outer products,
// 2 x 2 elements a thread, from DEPTH rows at a time in shared memory (8 KiB). The tile is
// small because the groups are: a policy's layer has few outputs, and a batch of 15,000
// rows in a thousand groups gives some fifteen products an element, which is then written
// once: writing bounds the time, not arithmetic.
#define TILE 32
#define HALF (TILE / 2)
#define DEPTH 16

// stage copies up to TILE columns, from first, of the group's rows [base, base+rows) to
// to, times the rows' signs where there are any.
static __device__ void stage(double *to, const double *x, long long xs, long long first, long long cols,
                             const int *order, const double *signs, long long base, int rows) {
    for (int e = thread(); e < rows * TILE; e += THREADS) {
        const long long row = order[base + e / TILE], j = first + e % TILE;
        const double v = j < cols ? x[row * xs + j] : 0;
        to[e] = signs ? signs[row] * v : v;
    }
}

// k_group_outer: blockIdx.x is the tile, tiles along h first, and blockIdx.y the group.
extern "C" __global__ void k_group_outer(double *dst, long long dsts, const double *d, long long ds, const double *h,
                                         long long hs, const int *order, const int *bounds, const double *signs,
                                         long long groups, long long dk, long long hk) {
    __shared__ double left[DEPTH * TILE], right[DEPTH * TILE];
    const long long across = (hk + TILE - 1) / TILE;
    const long long top = blockIdx.x / across * TILE, side = blockIdx.x % across * TILE;
    for (long long g = blockIdx.y; g < groups; g += gridDim.y) {
        double s00 = 0, s01 = 0, s10 = 0, s11 = 0;
        for (long long base = bounds[g]; base < bounds[g + 1]; base += DEPTH) {
            const int rows = bounds[g + 1] - base < DEPTH ? bounds[g + 1] - base : DEPTH;
            stage(left, d, ds, top, dk, order, signs, base, rows);
            stage(right, h, hs, side, hk, order, 0, base, rows);
            __syncthreads();
            for (int i = 0; i < rows; i++) {
                const double a = left[i * TILE + threadIdx.y], b = left[i * TILE + threadIdx.y + HALF];
                const double u = right[i * TILE + threadIdx.x], v = right[i * TILE + threadIdx.x + HALF];
                s00 += a * u, s01 += a * v, s10 += b * u, s11 += b * v;
            }
            __syncthreads(); // the next rows overwrite these
        }
        const long long i = top + threadIdx.y, j = side + threadIdx.x;
        double *to = dst + g * dsts + i * hk + j;
        if (i < dk && j < hk) to[0] = s00;
        if (i < dk && j + HALF < hk) to[HALF] = s01;
        if (i + HALF < dk && j < hk) to[HALF * hk] = s10;
        if (i + HALF < dk && j + HALF < hk) to[HALF * hk + HALF] = s11;
    }
}

// k_group_sum: blockIdx.x is the tile of columns, blockIdx.y the group.
extern "C" __global__ void k_group_sum(double *dst, long long dsts, const double *x, long long xs, const int *order,
                                       const int *bounds, const double *signs, long long groups, long long k) {
    __shared__ double sum[THREADS];
    const long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (long long g = blockIdx.y; g < groups; g += gridDim.y) {
        double s = 0;
        if (j < k)
            for (long long i = bounds[g] + threadIdx.y; i < bounds[g + 1]; i += blockDim.y)
                s += signs[order[i]] * x[order[i] * xs + j];
        sum[thread()] = s;
        tree(sum, blockDim.x);
        if (threadIdx.y == 0 && j < k) dst[g * dsts + j] = sum[threadIdx.x];
        __syncthreads(); // the next group overwrites the sums
    }
}
