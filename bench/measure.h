// SPDX-License-Identifier: BSD-3-Clause
// What the benchmarks measure with.
#pragma once

#include <time.h>

#include <algorithm>
#include <vector>

namespace rocemu::bench {

inline double clock_seconds(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Of this thread's CPU: what others do on the core meanwhile is not counted. A system call, about a microsecond.
inline double cpu_seconds() {
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

// Cheap. For medians of rounds so short that most of them nobody else has cut into.
inline double seconds() {
    return clock_seconds(CLOCK_MONOTONIC);
}

// The value that `percent` of them are below.
inline double percentile(std::vector<double> v, unsigned percent) {
    std::sort(v.begin(), v.end());
    return v[v.size() * percent / 100];
}
inline double median(std::vector<double> v) {
    return percentile(std::move(v), 50);
}

}  // namespace rocemu::bench
