// SPDX-License-Identifier: BSD-3-Clause
// The C library's functions that take a path, as far as programs look for RDMA devices with them. Relative paths and
// descriptors of directories need nothing: they lead from what was opened here.

// With 64-bit file offsets the headers rename stat to stat64 and so on; here both names are defined.
#undef _FILE_OFFSET_BITS

#include <sys/sysmacros.h>

#include <cstdlib>

#include "provider/path_view.h"
#include "provider/real_libc.h"
#include "provider/verbs.h"

using namespace rocemu::provider;

// On 64-bit systems the two structures are one.
static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(dirent) == sizeof(dirent64));

namespace {

// Programs want to see a character device; the number is that of uverbs devices on Linux.
constexpr mode_t kDeviceMode = S_IFCHR | 0666;
constexpr unsigned kMajor = 231, kMinor = 192;

int seen(int rc, const PathView& view, struct stat* info) {
    if (rc != 0 || !view.is_device() || !S_ISREG(info->st_mode)) return rc;
    info->st_mode = kDeviceMode;
    info->st_rdev = makedev(kMajor, kMinor);
    return rc;
}

}  // namespace

ROCEMU_EXPORT int stat(const char* path, struct stat* info) noexcept {
    const PathView view(path);
    return seen(libc().stat(view.get(), info), view, info);
}
ROCEMU_EXPORT int stat64(const char* path, struct stat64* info) noexcept {
    return stat(path, reinterpret_cast<struct stat*>(info));
}
ROCEMU_EXPORT int lstat(const char* path, struct stat* info) noexcept {
    const PathView view(path);
    return seen(libc().lstat(view.get(), info), view, info);
}
ROCEMU_EXPORT int lstat64(const char* path, struct stat64* info) noexcept {
    return lstat(path, reinterpret_cast<struct stat*>(info));
}
ROCEMU_EXPORT int fstatat(int directory, const char* path, struct stat* info, int flags) noexcept {
    const PathView view(path);
    return seen(libc().fstatat(directory, view.get(), info, flags), view, info);
}
ROCEMU_EXPORT int fstatat64(int directory, const char* path, struct stat64* info, int flags) noexcept {
    return fstatat(directory, path, reinterpret_cast<struct stat*>(info), flags);
}
// What glibc before 2.33 had instead; see __fxstat in cm_hooks.cpp.
ROCEMU_EXPORT int __xstat(int, const char* path, struct stat* info) noexcept {
    return stat(path, info);
}
ROCEMU_EXPORT int __xstat64(int, const char* path, struct stat64* info) noexcept {
    return stat64(path, info);
}
ROCEMU_EXPORT int __lxstat(int, const char* path, struct stat* info) noexcept {
    return lstat(path, info);
}
ROCEMU_EXPORT int __lxstat64(int, const char* path, struct stat64* info) noexcept {
    return lstat64(path, info);
}
ROCEMU_EXPORT int __fxstatat(int, int directory, const char* path, struct stat* info, int flags) noexcept {
    return fstatat(directory, path, info, flags);
}
ROCEMU_EXPORT int __fxstatat64(int, int directory, const char* path, struct stat64* info, int flags) noexcept {
    return fstatat64(directory, path, info, flags);
}
ROCEMU_EXPORT int statx(int directory, const char* path, int flags, unsigned mask, struct statx* info) noexcept {
    const PathView view(path);
    const int rc = libc().statx(directory, view.get(), flags, mask, info);
    if (rc != 0 || !view.is_device() || !S_ISREG(info->stx_mode)) return rc;
    info->stx_mode = kDeviceMode;
    info->stx_rdev_major = kMajor;
    info->stx_rdev_minor = kMinor;
    return rc;
}
ROCEMU_EXPORT int access(const char* path, int mode) noexcept {
    return libc().access(PathView(path).get(), mode);
}
ROCEMU_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
    return libc().faccessat(directory, PathView(path).get(), mode, flags);
}
ROCEMU_EXPORT FILE* fopen(const char* path, const char* mode) {
    return libc().fopen(PathView(path).get(), mode);
}
ROCEMU_EXPORT FILE* fopen64(const char* path, const char* mode) {
    return libc().fopen(PathView(path).get(), mode);
}
ROCEMU_EXPORT DIR* opendir(const char* path) {
    return libc().opendir(PathView(path).get());
}
ROCEMU_EXPORT int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
                          int (*compare)(const dirent**, const dirent**)) {
    return libc().scandir(PathView(path).get(), list, filter, compare);
}
ROCEMU_EXPORT ssize_t readlink(const char* path, char* target, size_t size) noexcept {
    return libc().readlink(PathView(path).get(), target, size);
}
ROCEMU_EXPORT ssize_t readlinkat(int directory, const char* path, char* target, size_t size) noexcept {
    return libc().readlinkat(directory, PathView(path).get(), target, size);
}
// Asked for by ls -l.
ROCEMU_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    return libc().getxattr(PathView(path).get(), name, value, size);
}
ROCEMU_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
    return libc().lgetxattr(PathView(path).get(), name, value, size);
}
// A program goes on with the path it gets, and may show it.
ROCEMU_EXPORT char* realpath(const char* path, char* resolved) noexcept {
    const PathView view(path);
    char* result = libc().realpath(view.get(), resolved);
    if (view.redirected() && result != nullptr) PathView::restore(result);
    return result;
}
// With _FORTIFY_SOURCE: `size` is that of `resolved`, which realpath(3) wants to have PATH_MAX bytes.
ROCEMU_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t size) noexcept {
    if (size < PATH_MAX) std::abort();
    return realpath(path, resolved);
}
