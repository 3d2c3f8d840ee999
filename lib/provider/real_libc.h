// SPDX-License-Identifier: BSD-3-Clause
// The C library's functions behind those that the provider shows to the application (path and descriptor hooks).
// Found when the library is loaded, so that the hooks may be called from signal handlers.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace rocemu::provider {

struct RealLibc {
#define LIBC(name) decltype(&::name) name = nullptr;
#include "provider/real_libc.def"
#undef LIBC
};

const RealLibc& libc();

}  // namespace rocemu::provider
