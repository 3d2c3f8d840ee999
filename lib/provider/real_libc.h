// SPDX-License-Identifier: BSD-3-Clause
// The C library's functions behind those that the provider shows to the application (path and descriptor hooks).
// Found when the library is loaded, so that the hooks may be called from signal handlers.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace rocemu::provider {

struct RealLibc {
    ssize_t (*write)(int, const void*, size_t) = nullptr;
    int (*open)(const char*, int, ...) = nullptr;
    int (*openat)(int, const char*, int, ...) = nullptr;
    int (*fstat)(int, struct stat*) = nullptr;
};

const RealLibc& libc();

}  // namespace rocemu::provider
