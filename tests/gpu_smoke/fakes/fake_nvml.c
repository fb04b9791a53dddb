// A stand-in for libnvidia-ml.so.1; answers come from FAKE_NVML_* variables.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

int nvmlInit_v2(void) {
    if (getenv("FAKE_NVML_HANG")) for (;;) pause();
    FILE *log = getenv("FAKE_LOG") ? fopen(getenv("FAKE_LOG"), "a") : NULL;
    if (log) fprintf(log, "%d\n", getpid()), fclose(log);
    return number("FAKE_NVML_RC", 0);
}
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "580.65.06");
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("FAKE_NVML_COUNT", number("FAKE_COUNT", 1)); return number("FAKE_NVML_COUNT_RC", 0); }
// FAKE_NVML_BAD is the number of the one GPU that gives FAKE_NVML_DEVICE_RC; without it every GPU does.
int nvmlDeviceGetHandleByIndex_v2(unsigned n, void **device) {
    long bad = number("FAKE_NVML_BAD", -1);
    *device = (void *)(long)(n + 1);
    return bad < 0 || bad == (long)n ? number("FAKE_NVML_DEVICE_RC", 0) : 0;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    int n = (int)(long)device;
    if (n >= 100) { snprintf(text, size, "MIG-%08x-2222-2222-2222-222222222222", n); return 0; }
    snprintf(text, size, "GPU-%x%x%x%x%x%x%x%x-1111-1111-1111-111111111111", n, n, n, n, n, n, n, n);
    return 0;
}
// busIdLegacy, five numbers, busId: nvmlPciInfo_t.
int nvmlDeviceGetPciInfo_v3(void *device, char *info) { memset(info, 0, 68); snprintf(info + 36, 32, "00000000:%02lX:00.0", (long)device); return 0; }
// FAKE_MINORS are the numbers of the GPUs on the host, a digit for each.
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) {
    const char *minors = getenv("FAKE_MINORS");
    *minor = minors ? (unsigned)minors[(long)device - 1] - '0' : (unsigned)(long)device - 1;
    return 0;
}
int nvmlDeviceGetComputeMode(void *device, int *mode) { (void)device; *mode = number("FAKE_COMPUTE_MODE", 0); return 0; }
int nvmlDeviceGetPersistenceMode(void *device, int *mode) { (void)device; *mode = number("FAKE_PERSISTENCE", 1); return 0; }
// nvmlGpuFabricInfo_v2_t: version, 16 bytes of a UUID, status, clique, state, health (2 is healthy, in each two bits).
int nvmlDeviceGetGpuFabricInfoV(void *device, char *info) {
    (void)device;
    int version, status = 0, health = number("FAKE_FABRIC_HEALTH", 0x1aa);
    memcpy(&version, info, 4);
    if (version != (36 | 2 << 24)) return 25;
    memset(info + 4, 0, 32);
    memcpy(info + 20, &status, 4);
    info[28] = number("FAKE_FABRIC", 0);
    memcpy(info + 32, &health, 4);
    return number("FAKE_FABRIC", -1) < 0 ? 3 : 0;
}
// nvmlFieldValue_t: field, scope, two long numbers, kind, rc, value. FAKE_RECOVERY is field 230, the recovery action.
int nvmlDeviceGetFieldValues(void *device, int count, char *field) {
    (void)device, (void)count;
    unsigned asked, action = number("FAKE_RECOVERY", 0);
    int rc = 0;
    memcpy(&asked, field, 4);
    if (asked != 230) rc = 3;
    memcpy(field + 28, &rc, 4), memcpy(field + 32, &action, 4);
    return 0;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    (void)device;
    *corrected = *uncorrected = 0, *pending = number("FAKE_ROWS_PENDING", 0), *failed = 0;
    return 0;
}
// One entry of nvmlProcessInfo_t has 24 bytes: pid, memory, two numbers of MIG.
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, char *found) {
    (void)device;
    unsigned pid = number("FAKE_USER_PID", 0);
    unsigned long long memory = 70ULL << 30;
    *count = pid ? 1 : 0;
    if (pid) memcpy(found, &pid, 4), memcpy(found + 8, &memory, 8);
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { (void)device; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned n, void **instance) {
    *instance = (void *)((long)device * 100 + n);
    return n < (unsigned)number("FAKE_MIG_INSTANCES", 0) ? 0 : 6;
}
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next) {
    (void)device;
    *now = *next = number("FAKE_MIG", 0);
    return 0;
}
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
