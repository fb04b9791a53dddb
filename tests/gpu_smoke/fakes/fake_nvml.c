// A stand-in for libnvidia-ml.so.1; answers come from FAKE_NVML_* variables.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

int nvmlInit_v2(void) {
    if (number("FAKE_NVML_CRASH", 0)) abort();
    return number("FAKE_NVML_RC", 0);
}
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    const char *version = getenv("FAKE_NVML_DRIVER");
    snprintf(text, size, "%s", version ? version : "580.65.06");
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("FAKE_NVML_COUNT", number("FAKE_COUNT", 1)); return number("FAKE_NVML_COUNT_RC", 0); }
int nvmlDeviceGetHandleByIndex_v2(unsigned n, void **device) { *device = (void *)(long)(n + 1); return number("FAKE_NVML_DEVICE_RC", 0); }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    int n = (int)(long)device;
    snprintf(text, size, "GPU-%x%x%x%x%x%x%x%x-1111-1111-1111-111111111111", n, n, n, n, n, n, n, n);
    return 0;
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next) { (void)device; *now = *next = number("FAKE_MIG", 0); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    (void)device;
    memory[0] = 80ULL << 30, memory[1] = 79ULL << 30, memory[2] = 1ULL << 30;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    (void)device, (void)kind, (void)counter;
    *count = number("FAKE_ECC", 0);
    return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) { (void)device; *reasons = number("FAKE_SLOWED", 0); return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) { (void)device; *width = number("FAKE_PCIE", 16); return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width) { (void)device; *width = 16; return 0; }
