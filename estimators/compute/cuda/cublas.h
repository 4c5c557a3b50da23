/* cuBLAS, loaded at run time: its soname differs between CUDA 12 and 13, the calls used here do not. */

typedef void *cublas;               /* a cublasHandle_t */
typedef unsigned long long address; /* the device's, a CUdeviceptr */

typedef struct {
	cublas handle;
	int version; /* as in 120901 */
	int status;
} cublas_opened;

/* Loads the library: the first of the names (ended by NULL) that is found. On failure returns -1, with the
 * loader's last message in why. */
int cublas_load(const char *const *names, char *why, int size);

/* Makes a handle that works in the stream and with the workspace alone. */
cublas_opened cublas_open(void *stream, address workspace, long long bytes);
void cublas_close(cublas b);

/* These return 0 or a cublasStatus_t. */

int cublas_dgemm(cublas b, int transA, int transB, int m, int n, int k, double alpha, address A, int lda, address B, int ldb,
                 double beta, address C, int ldc);
int cublas_dsyrk(cublas b, int lower, int trans, int n, int k, double alpha, address A, int lda, double beta, address C, int ldc);
