// SPDX-License-Identifier: BSD-3-Clause
// See dlopen_hook.h. The handle for libibverbs is that of librocemu-verbs.so beside this library: an empty library that
// needs the provider and libibverbs, in this order, which is the order in which dlsym and dlvsym search a handle.
#include "provider/dlopen_hook.h"

#include <atomic>
#include <cstring>

#include <dlfcn.h>
#include <limits.h>

#include "provider/verbs.h"

namespace rocemu::provider {
namespace {

using Dlopen = void* (*)(const char*, int);
std::atomic<Dlopen> real_function{nullptr};

Dlopen next() {
    Dlopen f = real_function.load(std::memory_order_relaxed);
    if (f == nullptr) {
        f = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));
        real_function.store(f, std::memory_order_relaxed);
    }
    return f;
}

bool is_libibverbs(const char* file) {
    const char* slash = std::strrchr(file, '/');
    const char* base = slash != nullptr ? slash + 1 : file;
    constexpr char kName[] = "libibverbs.so";
    const size_t n = sizeof kName - 1;
    return std::strncmp(base, kName, n) == 0 && (base[n] == '\0' || base[n] == '.');
}

void* open_both(int mode) {
    Dl_info self;
    char path[PATH_MAX];
    if (dladdr(reinterpret_cast<void*>(&real_function), &self) == 0) return nullptr;
    const char* slash = std::strrchr(self.dli_fname, '/');
    const size_t directory = slash != nullptr ? static_cast<size_t>(slash - self.dli_fname) + 1 : 0;
    constexpr char kBoth[] = "librocemu-verbs.so";
    if (directory + sizeof kBoth > sizeof path) return nullptr;
    std::memcpy(path, self.dli_fname, directory);
    std::memcpy(path + directory, kBoth, sizeof kBoth);
    return next()(path, mode);
}

}  // namespace

void* real_dlopen(const char* file, int mode) { return next()(file, mode); }

}  // namespace rocemu::provider

using namespace rocemu::provider;

ROCEMU_EXPORT void* dlopen(const char* file, int mode) {
    // RTLD_DEEPBIND would let a library find libibverbs before us.
    mode &= ~RTLD_DEEPBIND;
    if (file != nullptr && (mode & RTLD_NOLOAD) == 0 && is_libibverbs(file))
        if (void* handle = open_both(mode); handle != nullptr) return handle;
    // Must be a tail call: glibc looks at the return address for the caller's RUNPATH and namespace. (This file is
    // always compiled with optimisation; tests/e2e look at the code.)
    return next()(file, mode);
}
