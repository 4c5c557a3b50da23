// CUDA C++ as far as the kernels use it, for g++. It is included before each kernel source.
#pragma once

#include <cmath>
#include <cstddef>

struct emulator_dim3 {
    unsigned x, y, z;
};

// Of the thread that runs.
extern emulator_dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();

#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
// In one section, so that all of it can be made NaN when a block starts.
#define __shared__ static __attribute__((section("emulator_shared")))
