// SPDX-License-Identifier: BSD-3-Clause
// See shared_file.h. A descriptor of the same file is looked for among the program's own, then the path is tried;
// /proc/self/map_files would name it directly, but only to privileged processes. Closing any descriptor of a file ends
// all locks that the process has on it (fcntl(2), F_SETLK): the program's own is used as it is, and a path is opened only
// where the program has no descriptor of the file, and so no lock.
#include "provider/shared_file.h"

#include <cctype>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/maps_reader.h"

namespace rocemu::provider {
namespace {

bool find_mapping(uint64_t first, uint64_t length, Vma& out) {
    MapsReader maps;
    while (maps.next(out))
        if (first >= out.start && first < out.end) return length <= out.end - first && out.shared && out.inode != 0;
    return false;
}

bool is_same(const struct stat& st, const Vma& mapping) {
    return S_ISREG(st.st_mode) && st.st_ino == mapping.inode && st.st_dev == mapping.device;
}

bool allows(int fd, bool writable) {
    const int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    return writable ? mode == O_RDWR : mode == O_RDWR || mode == O_RDONLY;
}

// One of the program's descriptors of the file. `present`: it has some, also if none of them will do.
int among_our_own(const Vma& mapping, bool writable, bool* present) {
    DIR* directory = opendir("/proc/self/fd");
    *present = directory == nullptr;  // not known
    if (directory == nullptr) return -1;
    int found = -1;
    while (const dirent* entry = found < 0 ? readdir(directory) : nullptr) {
        if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
        const int fd = std::atoi(entry->d_name);
        struct stat st{};
        if (fstat(fd, &st) != 0 || !is_same(st, mapping)) continue;
        *present = true;
        if (allows(fd, writable)) found = fd;
    }
    closedir(directory);
    return found;
}

int by_path(const Vma& mapping, bool writable) {
    const char* path = mapping.name[0] == '/' ? mapping.name : nullptr;
    struct stat st{};
    // Looked at before it is opened: opening a device does things.
    if (path == nullptr || stat(path, &st) != 0 || !is_same(st, mapping)) return -1;
    const int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || (fstat(fd, &st) == 0 && is_same(st, mapping))) return fd;
    close(fd);
    return -1;
}

}  // namespace

SharedFile find_shared_file(const void* address, size_t length, bool writable) {
    Vma mapping;
    const auto first = reinterpret_cast<uint64_t>(address);
    if (length == 0 || !find_mapping(first, length, mapping)) return {};
    bool present = false;
    const int own = among_our_own(mapping, writable, &present);
    const int fd = present ? own : by_path(mapping, writable);
    return {fd, fd >= 0 && !present, mapping.offset + (first - mapping.start), mapping.device, mapping.inode};
}

}  // namespace rocemu::provider
