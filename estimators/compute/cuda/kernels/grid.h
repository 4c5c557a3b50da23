// What all kernels share: how threads go over a matrix, and how a block adds up.
//
// A block of the backend is a pointer and a stride: element (i, j) is x[i*xs + j]. All
// indices are 64 bits wide. Threads have a row, y, and a column, x, so that neighbours in
// a warp are neighbours in memory and no index takes a division; the loops step by the
// whole grid, so that any grid does.

#pragma once

#define EACH_ROW(i, n) \
    for (long long i = (long long)blockIdx.y * blockDim.y + threadIdx.y; i < (n); i += (long long)gridDim.y * blockDim.y)
#define EACH_COL(j, k) \
    for (long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x; j < (k); j += (long long)gridDim.x * blockDim.x)

// Blocks that add up have this many threads, a power of two: as many as keep two loads
// each in flight on every multiprocessor, few enough that eight blocks fit on one. It is
// blockThreads in launch geometry.
#define THREADS 256

// thread is the thread's number in its block.
static __device__ int thread() { return threadIdx.y * blockDim.x + threadIdx.x; }

// tree sets each of the first width of the THREADS sums to the total of those a multiple
// of width after it, halving what is left in each step: one order of summation, whatever
// runs first. width is a power of two. Thread t < width may read sum[t] at once; other
// threads, and whoever writes sum again, wait at a barrier first.
static __device__ void tree(double *sum, int width) {
    const int t = thread();
    for (int half = THREADS / 2; half >= width; half /= 2) {
        __syncthreads();
        if (t < half) sum[t] += sum[t + half];
    }
}
