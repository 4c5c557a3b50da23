//go:build gpu

#include "cublas.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

/* cublas_v2.h's values. */
enum { OP_N = 0, OP_T = 1, FILL_LOWER = 0, FILL_UPPER = 1 };

static struct {
	int (*create)(void **);
	int (*destroy)(void *);
	int (*version)(void *, int *);
	int (*set_stream)(void *, void *);
	int (*set_workspace)(void *, void *, size_t);
	int (*dgemm)(void *, int, int, int, int, int, const double *, const void *, int, const void *, int, const double *, void *,
	             int);
	int (*dsyrk)(void *, int, int, int, int, const double *, const void *, int, const double *, void *, int);
} f;

static const struct {
	const char *name;
	void *slot;
} functions[] = {
    {"cublasCreate_v2", &f.create},
    {"cublasDestroy_v2", &f.destroy},
    {"cublasGetVersion_v2", &f.version},
    {"cublasSetStream_v2", &f.set_stream},
    {"cublasSetWorkspace_v2", &f.set_workspace},
    {"cublasDgemm_v2", &f.dgemm},
    {"cublasDsyrk_v2", &f.dsyrk},
};

static void *at(address p) { return (void *)p; }

int cublas_load(const char *const *names, char *why, int size) {
	void *library = NULL;
	for (; *names != NULL && library == NULL; names++)
		library = dlopen(*names, RTLD_NOW);
	if (library == NULL) {
		snprintf(why, size, "%s", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *found = dlsym(library, functions[i].name);
		if (found == NULL) {
			snprintf(why, size, "%s is missing in it", functions[i].name);
			return -1;
		}
		*(void **)functions[i].slot = found;
	}
	return 0;
}

cublas_opened cublas_open(void *stream, address workspace, long long bytes) {
	cublas_opened b = {NULL, 0, 0};
	b.status = f.create(&b.handle);
	if (b.status == 0)
		b.status = f.version(b.handle, &b.version);
	if (b.status == 0)
		b.status = f.set_stream(b.handle, stream); /* before the workspace: it takes that away */
	if (b.status == 0)
		b.status = f.set_workspace(b.handle, at(workspace), (size_t)bytes);
	return b;
}

void cublas_close(cublas b) {
	if (b != NULL)
		f.destroy(b);
}

static int op(int trans) { return trans ? OP_T : OP_N; }
static int fill(int lower) { return lower ? FILL_LOWER : FILL_UPPER; }

int cublas_dgemm(cublas b, int transA, int transB, int m, int n, int k, double alpha, address A, int lda, address B, int ldb,
                 double beta, address C, int ldc) {
	return f.dgemm(b, op(transA), op(transB), m, n, k, &alpha, at(A), lda, at(B), ldb, &beta, at(C), ldc);
}

int cublas_dsyrk(cublas b, int lower, int trans, int n, int k, double alpha, address A, int lda, double beta, address C, int ldc) {
	return f.dsyrk(b, fill(lower), op(trans), n, k, &alpha, at(A), lda, &beta, at(C), ldc);
}
