// A stand-in for libcudart and the toolkit libraries, computing on host memory: the way of success without a GPU.
// FAKE_WRONG names the library whose result is wrong, FAKE_FAIL the function that gives 1, FAKE_TOOLKIT_CRASH one that dies.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
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
    if (named("FAKE_TOOLKIT_CRASH", name)) abort();
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

// cuRAND
int curandGetVersion(int *v) { *v = 10400; return 0; }
static int create_generator(void **g, long device) { long *state = malloc(2 * sizeof *state); state[0] = 1, state[1] = device; *g = state; return 0; }
int curandCreateGenerator(void **g, int kind) { (void)kind; create_generator(g, 1); OK("curandCreateGenerator"); }
int curandCreateGeneratorHost(void **g, int kind) { (void)kind; return create_generator(g, 0); }
int curandSetPseudoRandomGeneratorSeed(long *g, unsigned long long seed) { g[0] = seed; return 0; }
int curandGenerateUniform(long *g, float *out, size_t count) {
    uint32_t x = g[0] * 2654435761u + 1;
    for (size_t n = 0; n < count; n++) x = x * 1664525u + 1013904223u, out[n] = (x / 4294967296.0) * 0.999f + 0.0005f;
    if (g[1]) spoil("curand", out);
    return 0;
}
int curandDestroyGenerator(void *g) { free(g); return 0; }

// cuSOLVER
int cusolverGetVersion(int *v) { *v = 12401; return 0; }
int cusolverDnCreate(void **h) { *h = (void *)8; OK("cusolverDnCreate"); }
int cusolverDnDestroy(void *h) { (void)h; return 0; }
int cusolverDnSpotrf_bufferSize(void *h, int lower, int n, float *a, int lda, int *size) { (void)h, (void)lower, (void)n, (void)a, (void)lda; *size = 4; return 0; }
int cusolverDnSpotrf(void *h, int lower, int n, float *a, int lda, void *work, int size, int *info) {
    (void)h, (void)lower, (void)work, (void)size, (void)info;
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++) for (int i = j; i < n; i++) a[j * lda + i] -= a[k * lda + i] * a[k * lda + j];
        float root = sqrtf(a[j * lda + j]);
        for (int i = j; i < n; i++) a[j * lda + i] /= root;
    }
    spoil("cusolver", a);
    OK("cusolverDnSpotrf");
}

// cuSPARSE
struct csr { int64_t rows; const int *offsets, *columns; const float *values; };
int cusparseGetProperty(int which, int *v) { *v = part("FAKE_CUSPARSE_VERSION", which); return 0; }
int cusparseCreate(void **h) { *h = (void *)8; OK("cusparseCreate"); }
int cusparseDestroy(void *h) { (void)h; return 0; }
int cusparseCreateCsr(void **m, int64_t rows, int64_t cols, int64_t entries, void *offsets, void *columns, void *values, int a,
                      int b, int base, int kind) {
    (void)cols, (void)entries, (void)a, (void)b, (void)base, (void)kind;
    struct csr *made = malloc(sizeof *made);
    *made = (struct csr){rows, offsets, columns, values};
    *m = made;
    return 0;
}
int cusparseCreateDnVec(void **v, int64_t size, void *values, int kind) { (void)size, (void)kind; *v = values; return 0; }
int cusparseSpMV_bufferSize(void *h, int op, const float *alpha, void *m, void *x, const float *beta, void *y, int kind, int how, size_t *size) {
    (void)h, (void)op, (void)alpha, (void)m, (void)x, (void)beta, (void)y, (void)kind, (void)how;
    *size = 8;
    return 0;
}
int cusparseSpMV(void *h, int op, const float *alpha, struct csr *m, float *x, const float *beta, float *y, int kind, int how, void *work) {
    (void)h, (void)op, (void)alpha, (void)beta, (void)kind, (void)how, (void)work;
    for (int64_t r = 0; r < m->rows; r++) {
        y[r] = 0;
        for (int i = m->offsets[r]; i < m->offsets[r + 1]; i++) y[r] += m->values[i] * x[m->columns[i]];
    }
    spoil("cusparse", y);
    OK("cusparseSpMV");
}

// cuFFT
int cufftGetVersion(int *v) { *v = 12000; return 0; }
int cufftPlan1d(int *plan, int n, int kind, int batch) { (void)kind, (void)batch; *plan = n; OK("cufftPlan1d"); }
int cufftDestroy(int plan) { (void)plan; return 0; }
int cufftExecC2C(int n, float *in, float *out, int direction) {
    float *copy = malloc(8 * n);
    memcpy(copy, in, 8 * n);
    for (int k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int i = 0; i < n; i++) {
            double angle = direction * 2 * M_PI * k * i / n;
            re += copy[2 * i] * cos(angle) - copy[2 * i + 1] * sin(angle);
            im += copy[2 * i] * sin(angle) + copy[2 * i + 1] * cos(angle);
        }
        out[2 * k] = re, out[2 * k + 1] = im;
    }
    free(copy);
    spoil("cufft", out);
    return 0;
}

// cuDNN: a 5 x 5 image, a 3 x 3 filter
size_t cudnnGetVersion(void) { return number("FAKE_CUDNN_VERSION", 92600); }
size_t cudnnGetCudartVersion(void) { return number("FAKE_CUDNN_CUDART", 13000); }
int cudnnCreate(void **h) { *h = (void *)8; OK("cudnnCreate"); }
int cudnnDestroy(void *h) { (void)h; return 0; }
int cudnnCreateTensorDescriptor(void **d) { *d = (void *)8; return 0; }
int cudnnCreateFilterDescriptor(void **d) { *d = (void *)8; return 0; }
int cudnnCreateConvolutionDescriptor(void **d) { *d = (void *)8; return 0; }
int cudnnSetTensor4dDescriptor(void) { return 0; }
int cudnnSetFilter4dDescriptor(void) { return 0; }
int cudnnSetConvolution2dDescriptor(void) { return 0; }
int cudnnConvolutionForward(void *h, const float *alpha, void *xd, const float *x, void *wd, const float *w, void *shape, int how,
                            void *work, size_t size, const float *beta, void *yd, float *y) {
    (void)h, (void)alpha, (void)xd, (void)wd, (void)shape, (void)how, (void)work, (void)size, (void)beta, (void)yd;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            y[3 * r + c] = 0;
            for (int i = 0; i < 9; i++) y[3 * r + c] += x[(r + i / 3) * 5 + c + i % 3] * w[i];
        }
    spoil("cudnn", y);
    OK("cudnnConvolutionForward");
}

// NCCL
static float *buffers[64];
static int joined, grouped;
int ncclGetVersion(int *v) { *v = 23007; return 0; }
int ncclGetUniqueId(void *id) { memset(id, 0, 128); OK("ncclGetUniqueId"); }
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
