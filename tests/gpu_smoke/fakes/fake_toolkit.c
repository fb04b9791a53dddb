// A stand-in for libcudart and the toolkit libraries, computing on host memory: the way of success without a GPU.
// FAKE_WRONG names the library whose result is wrong, FAKE_FAIL the function that gives 1.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}
static int named(const char *variable, const char *name) {
    const char *want = getenv(variable);
    return want && !strcmp(want, name);
}
static int rc(const char *name) {
    if (named("FAKE_TOOLKIT_HANG", name)) for (;;) pause();
    return named("FAKE_FAIL", name) ? 1 : 0;
}
static void spoil(const char *name, float *value) { if (named("FAKE_WRONG", name)) *value += 1; }
#define OK(name) return rc(name)

// libcudart
int cudaRuntimeGetVersion(int *v) { *v = number("FAKE_RUNTIME_VERSION", 13000); return 0; }
int cudaDriverGetVersion(int *v) { *v = number("FAKE_RUNTIME_DRIVER", number("FAKE_CUDA_VERSION", 13000)); return 0; }
int cudaGetDeviceCount(int *n) { *n = number("FAKE_COUNT", 1); return number("FAKE_RUNTIME_RC", 0); }
int cudaMalloc(void **p, size_t size) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    int (*context_rc)(void) = driver ? (int (*)(void))dlsym(driver, "fake_context_rc") : NULL;
    *p = malloc(size);
    return context_rc && context_rc() ? context_rc() : rc("cudaMalloc");
}
int cudaFree(void *p) { free(p); return 0; }
int cudaMemcpy(void *to, const void *from, size_t size, int kind) { (void)kind; memcpy(to, from, size); return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaSetDevice(int n) { (void)n; return 0; }

// cuBLAS, cuSPARSE: versions by part
static int part(const char *variable, int which) {
    int version = number(variable, 130000);
    return which == 0 ? version / 10000 : which == 1 ? version % 10000 / 100 : version % 100;
}
int cublasGetProperty(int which, int *v) { *v = part("FAKE_CUBLAS_VERSION", which); return 0; }
int cublasCreate_v2(void **h) { *h = (void *)8; OK("cublasCreate_v2"); }
int cublasDestroy_v2(void *h) { (void)h; return 0; }
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b,
                   int ldb, const float *beta, float *c, int ldc) {
    (void)h, (void)ta, (void)tb;
    for (int col = 0; col < n; col++)
        for (int row = 0; row < m; row++) {
            float sum = 0;
            for (int i = 0; i < k; i++) sum += a[i * lda + row] * b[col * ldb + i];
            c[col * ldc + row] = *alpha * sum + *beta * c[col * ldc + row];
        }
    spoil("cublas", c);
    OK("cublasSgemm_v2");
}

// The others tell their versions only.
int curandGetVersion(int *v) { *v = 10400; return 0; }
int cusolverGetVersion(int *v) { *v = 12401; return 0; }
int cusparseGetProperty(int which, int *v) { *v = part("FAKE_CUBLAS_VERSION", which); return 0; }
int cufftGetVersion(int *v) { *v = 12000; return 0; }
size_t cudnnGetVersion(void) { return number("FAKE_CUDNN_VERSION", 92600); }
size_t cudnnGetCudartVersion(void) { return number("FAKE_CUDNN_CUDART", 13000); }

// NCCL
static float *buffers[64];
static int joined, grouped;
int ncclGetVersion(int *v) { *v = 23007; return 0; }
int ncclCommInitAll(void **ranks, int count, const int *devices) { (void)devices; for (int n = 0; n < count; n++) ranks[n] = (void *)(long)(n + 1); OK("ncclCommInitAll"); }
int ncclCommDestroy(void *rank) { (void)rank; return 0; }
int ncclGroupStart(void) { joined = 0; return 0; }
int ncclAllReduce(const void *in, void *out, size_t count, int kind, int op, void *rank, void *stream) {
    (void)in, (void)kind, (void)op, (void)rank, (void)stream;
    buffers[joined++] = out;
    grouped = count;
    OK("ncclAllReduce");
}
int ncclGroupEnd(void) {
    for (int i = 0; i < grouped; i++) {
        float sum = 0;
        for (int n = 0; n < joined; n++) sum += buffers[n][i];
        for (int n = 0; n < joined; n++) buffers[n][i] = sum;
    }
    if (joined) spoil("nccl", buffers[0]);
    return 0;
}
