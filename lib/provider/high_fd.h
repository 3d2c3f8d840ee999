// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of ours have numbers that nobody expects among the application's own: shells use small ones by name, and
// programs rely on the lowest free one. See fcntl(2), F_DUPFD_CLOEXEC.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace rocemu::provider {

inline constexpr int kFirstHighFd = 64;

// `fd` under a high number, and the low one is free again; where there is none, as it was. The caller's as before.
inline int move_up(int fd) {
    const int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, kFirstHighFd) : -1;
    if (high < 0) return fd;
    close(fd);
    return high;
}

}  // namespace rocemu::provider
