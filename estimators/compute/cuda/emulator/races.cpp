// Runs the kernels that have barriers with a real thread for each of a block's, under ThreadSanitizer: shared memory
// that is read or written without a barrier between is reported, which the emulator, whose threads run in turn, does
// not see. Results are not looked at here. races_test.go builds and runs it.
#include <cmath>
#include <pthread.h>
#include <thread>
#include <vector>

struct dim3 {
    unsigned x, y, z;
};

thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static pthread_barrier_t barrier;

static void __syncthreads() { pthread_barrier_wait(&barrier); }

#define __global__
#define __device__
#define __shared__ static

#include "../kernels/interpolation.cu"
#include "../kernels/reductions.cu"
#include "../kernels/sketches.cu"

// launch runs the grid's blocks one after the other.
template <class F> static void launch(unsigned columns, unsigned rows, unsigned width, unsigned height, F kernel) {
    gridDim = {columns, rows, 1}, blockDim = {width, height, 1};
    pthread_barrier_init(&barrier, nullptr, width * height);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < width * height; t++)
        threads.emplace_back([=] {
            threadIdx = {t % width, t / width, 0};
            for (unsigned block = 0; block < columns * rows; block++) {
                blockIdx = {block % columns, block / columns, 0};
                kernel();
                pthread_barrier_wait(&barrier);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    pthread_barrier_destroy(&barrier);
}

int main() {
    const int n = 70, k = 13, m = 20, groups = 4, outputs = 37, inputs = 41;
    std::vector<double> x(n * k), y(n * k), d(n * k), partial(64), z(n), table(m * k), signs(n, -1);
    std::vector<double> signals(n * outputs), hidden(n * inputs), sums(groups * outputs * inputs);
    for (int i = 0; i < n * k; i++) x[i] = std::sin(i), y[i] = std::cos(i);
    for (int i = 0; i < n; i++) z[i] = 12 * std::sin(i);
    std::vector<int> order(n), bounds = {0, 20, 20, 61, n};
    for (int i = 0; i < n; i++) order[i] = i * 37 % n;

    launch(1, 2, 16, 16, [&] { k_dot(partial.data(), x.data(), k, y.data(), k, n, k); });
    launch(1, 3, 16, 16, [&] { k_sum_rows(x.data(), k, 32, n, k, d.data(), k); });
    launch(1, 3, 16, 16, [&] { k_col_dots(x.data(), k, y.data(), k, 32, n, k, d.data(), k); });
    launch(1, 2, 16, 16, [&] { k_extremes(partial.data(), x.data(), k, n, k); });
    launch(1, 1, 256, 1, [&] { k_extremes_of(d.data(), partial.data(), 2); });
    for (unsigned width : {1, 16, 256}) {
        const unsigned height = 256 / width, blocks = (n + height - 1) / height;
        launch(blocks, 1, width, height, [&] { k_row_dots(d.data(), 1, x.data(), k, y.data(), k, 0, n, k); });
        // In place, as dst may be an argument.
        launch(blocks, 1, width, height, [&] {
            k_interpolate_grad(z.data(), 1, z.data(), 1, table.data(), k, x.data(), k, -10, 1, m, n, k);
        });
    }
    launch(4, 2, 16, 16, [&] {
        k_group_outer(sums.data(), outputs * inputs, signals.data(), outputs, hidden.data(), inputs, order.data(),
                      bounds.data(), signs.data(), groups, outputs, inputs);
    });
    launch(3, 2, 16, 16, [&] {
        k_group_sum(sums.data(), outputs, signals.data(), outputs, order.data(), bounds.data(), signs.data(), groups, outputs);
    });
}
