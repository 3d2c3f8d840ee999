// SPDX-License-Identifier: BSD-3-Clause
// What the benchmarks measure with.
#pragma once

#include <time.h>

#include <algorithm>
#include <vector>

namespace rocemu::bench {

// Of this thread's CPU: what others do on the core meanwhile is not counted.
inline double seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

}  // namespace rocemu::bench
