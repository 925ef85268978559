/* A clock that a test sets: real time moves by the seconds in a file, for every process that has this library preloaded.
   Clocks that nobody sets, such as CLOCK_MONOTONIC, stay as they are, as they do when a machine's time is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;
static int (*kernels)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("FATE_DP_CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *shared = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED)
        offset = shared;
}

static int64_t seconds(void)
{
    return offset ? *offset : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!kernels)
        kernels = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = kernels(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += seconds();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found))
        return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (kept)
        *kept = found.tv_sec;
    return found.tv_sec;
}
