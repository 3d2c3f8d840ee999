// SPDX-License-Identifier: BSD-3-Clause
// Preloaded in User-Mode Linux guests only: gettimeofday() by the time stamp counter. There it is a slow, uneven
// system call, and perftest, which measures the counter against it, gives up and prints 0.00 for each bandwidth.
// The rate comes from /proc/cpuinfo, where init.sh put the host's.
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <x86intrin.h>

static double ticks_per_us;
static double start_us;
static unsigned long long start_ticks;

__attribute__((constructor)) static void calibrate(void)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && ticks_per_us == 0 && fgets(line, sizeof line, f))
        sscanf(line, "cpu MHz : %lf", &ticks_per_us);
    if (f)
        fclose(f);
    if (ticks_per_us == 0)
        ticks_per_us = 1000;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    start_us = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
    start_ticks = __rdtsc();
}

int gettimeofday(struct timeval *tv, void *zone)
{
    (void)zone;
    double us = start_us + (double)(__rdtsc() - start_ticks) / ticks_per_us;
    tv->tv_sec = (time_t)(us / 1e6);
    tv->tv_usec = (suseconds_t)(us - (double)tv->tv_sec * 1e6);
    return 0;
}
