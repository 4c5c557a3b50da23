// libcublas.so.12: the functions of cuBLAS that package cuda calls, on column-major matrices as there.
#include "emulator.h"

#include <algorithm>
#include <vector>

enum status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };

struct context {
    CUstream stream = nullptr;
    bool workspace = false;
};

// matrix is an argument: op(X) is rows × cols.
struct matrix {
    double *x;
    int ld;
    bool trans;
    double &operator()(int i, int j) const { return trans ? x[j + size_t(i) * ld] : x[i + size_t(j) * ld]; }
};

// Whether a rows × cols matrix (as it is stored) lies in a buffer.
static bool fits(const char *call, const double *x, int rows, int cols, int ld) {
    if (rows > 0 && cols > 0 && ld >= rows && emulator_holds(x, ((cols - 1) * size_t(ld) + rows) * sizeof *x))
        return true;
    emulator_complain(std::string(call) + ": a " + std::to_string(rows) + " x " + std::to_string(cols) + " matrix with ld " +
                      std::to_string(ld) + " is not in one buffer");
    return false;
}

template <class F> static int enqueue(context *c, F work) {
    if (c == nullptr || c->stream == nullptr || !c->workspace)
        return NOT_INITIALIZED;
    return emulator_enqueue(c->stream, [=] {
               work();
               return CUDA_SUCCESS;
           }) == CUDA_SUCCESS
               ? SUCCESS
               : EXECUTION_FAILED;
}

EXPORT int cublasCreate_v2(context **c) {
    *c = new context;
    return SUCCESS;
}

EXPORT int cublasDestroy_v2(context *c) {
    delete c;
    return SUCCESS;
}

EXPORT int cublasGetVersion_v2(context *, int *version) {
    *version = 120901;
    return SUCCESS;
}

EXPORT int cublasSetStream_v2(context *c, CUstream stream) {
    c->stream = stream;
    c->workspace = false; // as cuBLAS does
    return SUCCESS;
}

EXPORT int cublasSetWorkspace_v2(context *c, void *workspace, size_t bytes) {
    c->workspace = emulator_holds(workspace, bytes);
    return c->workspace ? SUCCESS : INVALID_VALUE;
}

// c = alpha*a*b + beta*c for those elements of c that want tells of, in strips of rows that stay in cache. Sums run
// over l in ascending order.
template <class W>
static void product(int m, int n, int k, double alpha, matrix a, matrix b, double beta, matrix c, W want) {
    const int strip = 128;
    std::vector<double> left(size_t(strip) * k), sum(strip);
    for (int top = 0; top < m; top += strip) {
        const int rows = std::min(strip, m - top);
        for (int l = 0; l < k; l++)
            for (int i = 0; i < rows; i++)
                left[size_t(l) * strip + i] = a(top + i, l);
        for (int j = 0; j < n; j++) {
            std::fill(sum.begin(), sum.end(), 0.0);
            for (int l = 0; l < k; l++) {
                const double factor = b(l, j), *column = &left[size_t(l) * strip];
                for (int i = 0; i < rows; i++)
                    sum[i] += factor * column[i];
            }
            for (int i = 0; i < rows; i++)
                if (want(top + i, j))
                    c(top + i, j) = alpha * sum[i] + (beta == 0 ? 0 : beta * c(top + i, j));
        }
    }
}

EXPORT int cublasDgemm_v2(context *h, int transA, int transB, int m, int n, int k, const double *alpha, double *A, int lda,
                          double *B, int ldb, const double *beta, double *C, int ldc) {
    if (!fits("cublasDgemm: A", A, transA ? k : m, transA ? m : k, lda) ||
        !fits("cublasDgemm: B", B, transB ? n : k, transB ? k : n, ldb) || !fits("cublasDgemm: C", C, m, n, ldc))
        return INVALID_VALUE;
    const matrix a{A, lda, transA != 0}, b{B, ldb, transB != 0}, c{C, ldc, false};
    return enqueue(h, [=, alpha = *alpha, beta = *beta] {
        product(m, n, k, alpha, a, b, beta, c, [](int, int) { return true; });
    });
}

EXPORT int cublasDsyrk_v2(context *h, int upper, int trans, int n, int k, const double *alpha, double *A, int lda,
                          const double *beta, double *C, int ldc) {
    if (!fits("cublasDsyrk: A", A, trans ? k : n, trans ? n : k, lda) || !fits("cublasDsyrk: C", C, n, n, ldc))
        return INVALID_VALUE;
    const matrix a{A, lda, trans != 0}, b{A, lda, trans == 0}, c{C, ldc, false};
    return enqueue(h, [=, alpha = *alpha, beta = *beta] {
        product(n, n, k, alpha, a, b, beta, c, [=](int i, int j) { return upper ? i <= j : i >= j; });
    });
}
