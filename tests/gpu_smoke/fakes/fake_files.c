// Preloaded: makes open() of given nodes fail, dlopen() of a library too, and /dev/shm small.
// FAKE_OPEN is PATH-END=ERRNO[,PATH-END=ERRNO]; FAKE_SHM is the size of /dev/shm in bytes; FAKE_LOADER is NAME=MESSAGE.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static int refused(const char *path) {
    const char *at = getenv("FAKE_OPEN");
    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "") {
        size_t length = strcspn(at, "=");
        if (strlen(path) >= length && !strncmp(path + strlen(path) - length, at, length)) return atoi(at + length + 1);
    }
    return 0;
}
static int opened(const char *name, const char *path, int flags, int mode) {
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    errno = refused(path);
    return errno ? -1 : real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return opened("open", path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return opened("open64", path, flags, mode);
}
static int small(const char *name, const char *path, struct statvfs *answer) {
    int (*real)(const char *, struct statvfs *) = (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, name);
    int rc = real(path, answer);
    size_t length = strlen(path);
    if (rc == 0 && getenv("FAKE_SHM") && length >= 8 && !strcmp(path + length - 8, "/dev/shm"))
        answer->f_blocks = answer->f_bavail = strtoul(getenv("FAKE_SHM"), NULL, 0) / answer->f_frsize;
    return rc;
}
int statvfs(const char *path, struct statvfs *answer) { return small("statvfs", path, answer); }
int statvfs64(const char *path, struct statvfs64 *answer) { return small("statvfs64", path, (struct statvfs *)answer); }

static void *(*real_dlopen)(const char *, int);
static char *(*real_dlerror)(void);
static const char *message;
__attribute__((constructor)) static void find(void) {
    real_dlopen = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    real_dlerror = (char *(*)(void))dlsym(RTLD_NEXT, "dlerror");
}
void *dlopen(const char *name, int mode) {
    const char *want = getenv("FAKE_LOADER"), *at = want ? strchr(want, '=') : NULL;
    int refuses = name && at && strlen(name) == (size_t)(at - want) && !strncmp(name, want, at - want);
    message = refuses ? at + 1 : NULL;
    return refuses ? NULL : real_dlopen(name, mode);
}
char *dlerror(void) {
    char *told = message ? (char *)message : real_dlerror();
    message = NULL;
    return told;
}
