// A stand-in for libcuda.so.1. Device memory is host memory; answers come from FAKE_* variables.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int started;
static size_t taken;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

// FAKE_FAULT names a function and what it does there: segv:cuInit, hang:cuInit, exit:cuInit, talk:cuInit.
static void fault(const char *here) {
    const char *want = getenv("FAKE_FAULT");
    const char *at = want ? strchr(want, ':') : NULL;
    if (!at || strcmp(at + 1, here)) return;
    if (!strncmp(want, "segv", 4)) { fprintf(stderr, "about to crash\n"); *(volatile int *)8 = 1; }
    if (!strncmp(want, "kill", 4)) raise(SIGKILL);
    if (!strncmp(want, "ill:", 4)) raise(SIGILL);
    if (!strncmp(want, "bus:", 4)) raise(SIGBUS);
    if (!strncmp(want, "hang", 4)) for (;;) pause();
    if (!strncmp(want, "exit", 4)) exit(0);
    if (!strncmp(want, "abort", 5)) abort();
    if (!strncmp(want, "talk", 4))
        for (int fd = 1; fd < 64; fd++)
            for (int n = 0; n < 2000; n++) if (write(fd, "\n{\"done\": 7}\xff\n", 14) < 0) break;
    if (!strncmp(want, "close", 5)) for (int fd = 0; fd < 64; fd++) close(fd);
}

__attribute__((constructor)) static void loaded(void) {
    Dl_info info;
    fault("load");
    if (number("FAKE_UNLINK", 0) && dladdr((void *)&loaded, &info)) unlink(realpath(info.dli_fname, NULL));
}

int cuDriverGetVersion(int *version) { fault("cuDriverGetVersion"); *version = number("FAKE_CUDA_VERSION", 13000); return 0; }
int cuInit(unsigned flags) {
    (void)flags;
    fault("cuInit");
    // FAKE_LOG is a file that gets a line for each process that starts the driver.
    FILE *log = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "a") : NULL;
    if (log) fprintf(log, "%d\n", getpid()), fclose(log);
    int rc = number("FAKE_CUINIT_RC", 0);
    usleep(number("FAKE_START_MS", 0) * 1000);
    started = rc == 0;
    return rc;
}
int cuDeviceGetCount(int *count) {
    if (!started) return 3;
    *count = number("FAKE_COUNT", 1);
    return number("FAKE_COUNT_RC", 0);
}
int cuDeviceGet(int *device, int n) { *device = n; return number("FAKE_DEVICE_RC", 0); }
int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    const char *text = getenv("FAKE_NAME");
    if (text && !strcmp(text, "garbage")) { memset(name, 0xfe, size); return 0; }
    snprintf(name, size, "%s", text ? text : "Fake H100");
    return 0;
}
// FAKE_ORDER is CUDA's list of GPUs by NVML's numbers, as a mask gives it: "10" turns two GPUs round.
static int physical(int device) {
    const char *order = getenv("FAKE_ORDER");
    return order && device < (int)strlen(order) ? order[device] - '0' : device;
}
int cuDeviceGetUuid_v2(void *uuid, int device) {
    int slice = number("FAKE_MIG_INSTANCES", 0) && physical(device) == 0;
    memset(uuid, slice ? 0x22 : 0x11 * (physical(device) + 1), 16);
    if (slice) memset(uuid, 0, 4), ((char *)uuid)[3] = 100 * (physical(device) + 1);
    return 0;
}
int cuDeviceGetPCIBusId(char *text, int size, int device) { snprintf(text, size, "0000:%02X:00.0", physical(device) + 1); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { (void)device; *size = 80UL << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    const char *cc = getenv("FAKE_CC");
    if (!cc) cc = "9.0";
    *value = attribute == 75 ? atoi(cc) : attribute == 76 ? atoi(strchr(cc, '.') + 1) : attribute == 16 ? 132
        : attribute == 18 ? number("FAKE_INTEGRATED", 0) : attribute == 100 ? number("FAKE_HOST_TABLES", 0) : 0;
    return 0;
}
int cuGetErrorName(int rc, const char **text) { (void)rc; *text = "CUDA_ERROR_OF_THE_FAKE"; return 0; }
int cuGetErrorString(int rc, const char **text) { (void)rc; *text = "fake error"; return 0; }
// A primary context dies with its last user; a thread that still has it as its current one gets 709.
static int users;
static void *current;
int cuDevicePrimaryCtxRetain(void **context, int device) {
    int rc = number("FAKE_CTX_RC", 0);
    users += rc == 0;
    *context = (void *)(8L + device);
    return rc;
}
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return users-- > 0 ? 0 : 201; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int fake_context_rc(void) { return current && users == 0 ? 709 : 0; }
int cuCtxSynchronize(void) { fault("cuCtxSynchronize"); return number("FAKE_SYNC_RC", 0); }
// A small GPU, so that filling a quarter of it takes no time; FAKE_FREE_MIB makes it one of 80 GiB.
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    *total = (number("FAKE_FREE_MIB", 0) ? 80UL << 10 : 32) << 20;
    *left = number("FAKE_FREE_MIB", 31) * (1UL << 20) - taken;
    return 0;
}
static size_t largest;
static uint64_t largest_at;
int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
    if (number("FAKE_ALLOC_RC", 0)) return number("FAKE_ALLOC_RC", 0);
    static int allocations;
    // FAKE_NEIGHBOUR is what another process takes, in MiB, while the test runs.
    if (size >= 2 << 20 && ++allocations == 2) taken += number("FAKE_NEIGHBOUR", 0) << 20;
    if (number("FAKE_LEAK", 0)) taken += size;
    *pointer = (uint64_t)malloc(size);
    if (size >= largest) largest = size, largest_at = *pointer;
    return 0;
}
int cuMemFree_v2(uint64_t pointer) { free((void *)pointer); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)to, from, size);
    if (number("FAKE_MEMORY_WRONG", 0) && size > 2 << 20) ((char *)to)[7] ^= 1;
    return 0;
}
// FAKE_STUCK is a byte of the largest allocation with a bit that is always 1 (FAKE_STUCK_BIT, else 4).
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    memcpy(to, (void *)from, size);
    long at = number("FAKE_STUCK", -1) - (long)(from - largest_at);
    if (number("FAKE_STUCK", -1) >= 0 && at >= 0 && (size_t)at < size) ((char *)to)[at] |= number("FAKE_STUCK_BIT", 4);
    return 0;
}
// FAKE_PTX_MAX is the newest PTX version that this driver compiles, such as 8.4.
int cuModuleLoadData(void **module, const char *text) {
    fault("cuModuleLoadData");
    const char *at = strstr(text, ".version "), *most = getenv("FAKE_PTX_MAX");
    int rc = number("FAKE_MODULE_RC", 0);
    // FAKE_PTX is a file that gets each text that is compiled, with a zero byte after it.
    FILE *texts = getenv("FAKE_PTX") ? fopen(getenv("FAKE_PTX"), "a") : NULL;
    if (texts) fwrite(text, 1, strlen(text) + 1, texts), fclose(texts);
    if (most && at && atof(at + 9) > atof(most) + 1e-9) return 222;
    *module = (void *)16;
    return rc;
}
int cuModuleUnload(void *module) { (void)module; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    *function = (void *)24;
    return strcmp(name, "gpu_smoke") ? 500 : 0;
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t size) { memset((void *)to, value, size); return 0; }
// FAKE_BAD_SM is a multiprocessor that computes wrong. Blocks go to the 132 in turn; FAKE_SHY_SM gets none of the first
// launches.
enum { PROCESSORS = 132 };
static void chain(uint32_t *data, uint32_t *places, uint32_t rounds, unsigned blocks, unsigned threads) {
    static int launches;
    long bad = number("FAKE_BAD_SM", -1), shy = number("FAKE_SHY_SM", -1);
    launches++;
    for (unsigned b = 0; b < blocks; b++)
        for (unsigned t = 0; t < threads; t++) {
            uint32_t n = b * threads + t, x = data[n], place = b % PROCESSORS, factor = 1, sum = 0;
            if (place == shy && launches == 1) place = (place + 1) % PROCESSORS;
            // The same as `rounds` times x = 1664525 * x + t, a bit of `rounds` at a time.
            for (uint32_t left = rounds, step = 1664525, one = 1; left; left >>= 1, one *= step + 1, step *= step)
                if (left & 1) sum = sum * step + one, factor *= step;
            places[n] = place;
            data[n] = ((factor * x + sum * t) ^ (x & 0xFFFFF)) ^ (place == bad && t == number("FAKE_BAD_THREAD", 5));
        }
    if (number("FAKE_KERNEL_WRONG", 0)) data[3] ^= 1;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    (void)f, (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    if (number("FAKE_LAUNCH_RC", 0)) return number("FAKE_LAUNCH_RC", 0);
#define POINTER(n) (uint32_t *)*(uint64_t *)arguments[n]
#define WORD(n) *(uint32_t *)arguments[n]
    chain(POINTER(0), POINTER(1), WORD(2), gx, bx);
    return 0;
}

// What NVIDIA's runtime asks for: any function by name; those we lack answer "not supported".
static int unsupported(void) { return 801; }
int cuGetExportTable(const void **table, const void *id) { (void)id; *table = NULL; return 500; }
static int resolve(const char *name, void **function) {
    char versioned[256];
    Dl_info info;
    dladdr((void *)&resolve, &info);
    void *self = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW);
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    *function = self ? dlsym(self, name) : NULL;
    if (!*function && self) *function = dlsym(self, versioned);
    if (!*function) *function = (void *)&unsupported;
    return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    (void)version, (void)flags;
    return resolve(name, function);
}
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    if (status) *status = 0;
    return resolve(name, function);
}
