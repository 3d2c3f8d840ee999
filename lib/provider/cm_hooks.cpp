// SPDX-License-Identifier: BSD-3-Clause
// The C library's functions by which librdmacm reaches its device: open, fstat, write. Everything else passes through.

// With 64-bit file offsets the headers rename open to open64 and so on; here both names are defined.
#undef _FILE_OFFSET_BITS

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

#include "provider/cm_files.h"
#include "provider/cm_write.h"
#include "provider/path_view.h"
#include "provider/process.h"
#include "provider/real_libc.h"
#include "provider/verbs.h"

using namespace rocemu::provider;

namespace {

bool is_cm_device(const char* path) {
    return path != nullptr && path[0] == '/' && std::strcmp(path, kCmDevice) == 0 && current_session() != nullptr;
}

mode_t mode_of(int flags, va_list list) {
    return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

int open_hook(int directory, bool at, const char* path, int flags, mode_t mode) {
    if (is_cm_device(path)) return open_cm_file(flags);
    const PathView view(path);
    return at ? libc().openat(directory, view.get(), flags, mode) : libc().open(view.get(), flags, mode);
}

}  // namespace

ROCEMU_EXPORT int open(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_hook(0, false, path, flags, mode);
}
ROCEMU_EXPORT int open64(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_hook(0, false, path, flags | O_LARGEFILE, mode);
}
ROCEMU_EXPORT int openat(int directory, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_hook(directory, true, path, flags, mode);
}
ROCEMU_EXPORT int openat64(int directory, const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_hook(directory, true, path, flags | O_LARGEFILE, mode);
}

ROCEMU_EXPORT int fstat(int fd, struct stat* info) {
    const int rc = libc().fstat(fd, info);
    CmFile file;
    if (rc == 0 && S_ISSOCK(info->st_mode) && find_cm_file(fd, file)) describe_cm_file(*info);
    return rc;
}
// On 64-bit systems the two structures are one.
ROCEMU_EXPORT int fstat64(int fd, struct stat64* info) {
    static_assert(sizeof(struct stat) == sizeof(struct stat64));
    return fstat(fd, reinterpret_cast<struct stat*>(info));
}

// What glibc before 2.33 had instead of fstat, with the version of the structure in front: of 64-bit systems only one is known.
ROCEMU_EXPORT int __fxstat(int, int fd, struct stat* info) {
    return fstat(fd, info);
}
ROCEMU_EXPORT int __fxstat64(int, int fd, struct stat64* info) {
    return fstat64(fd, info);
}

ROCEMU_EXPORT ssize_t write(int fd, const void* data, size_t size) {
    CmFile file;
    if (!find_cm_file(fd, file)) [[likely]]
        return libc().write(fd, data, size);
    return write_cm_command(fd, file, data, size);
}
