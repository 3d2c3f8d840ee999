// SPDX-License-Identifier: BSD-3-Clause
// See shared_file.h. A descriptor of the same file is looked for among the program's own, then the path is tried;
// /proc/self/map_files would name it directly, but only to privileged processes. Closing any descriptor of a file ends
// all locks that the process has on it (fcntl(2), F_SETLK): the program's own is used as it is, and a path is opened only
// where the program has no descriptor of the file, and so no lock.
#include "provider/shared_file.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace rocemu::provider {
namespace {

struct Mapping {
    dev_t device;
    ino_t inode;
    uint64_t offset;  // of the address asked for, in the file
    char path[512];
};

bool parse(const char* line, uint64_t first, uint64_t length, Mapping& out) {
    unsigned long start = 0, end = 0, offset = 0, inode = 0;
    unsigned major = 0, minor = 0;
    char flags[8] = {};
    out.path[0] = 0;
    if (std::sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %511[^\n]", &start, &end, flags, &offset, &major, &minor, &inode,
                    out.path) < 7)
        return false;
    if (first < start || first >= end || length > end - first || flags[3] != 's' || inode == 0) return false;
    out.device = makedev(major, minor);
    out.inode = inode;
    out.offset = offset + (first - start);
    return true;
}

bool find_mapping(uint64_t first, uint64_t length, Mapping& out) {
    std::FILE* maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return false;
    char line[1024];
    bool found = false, whole = true;
    while (!found && std::fgets(line, sizeof line, maps) != nullptr) {
        // The rest of a line that is longer than the buffer is not a line.
        if (whole) found = parse(line, first, length, out);
        whole = std::strchr(line, '\n') != nullptr;
    }
    std::fclose(maps);
    return found;
}

bool is_same(const struct stat& st, const Mapping& mapping) {
    return S_ISREG(st.st_mode) && st.st_ino == mapping.inode && st.st_dev == mapping.device;
}

bool allows(int fd, bool writable) {
    const int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    return writable ? mode == O_RDWR : mode == O_RDWR || mode == O_RDONLY;
}

// One of the program's descriptors of the file. `present`: it has some, also if none of them will do.
int among_our_own(const Mapping& mapping, bool writable, bool* present) {
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

int by_path(const Mapping& mapping, bool writable) {
    const char* path = std::strchr(mapping.path, '/');
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
    Mapping mapping;
    if (length == 0 || !find_mapping(reinterpret_cast<uint64_t>(address), length, mapping)) return {};
    bool present = false;
    const int own = among_our_own(mapping, writable, &present);
    const int fd = present ? own : by_path(mapping, writable);
    return {fd, fd >= 0 && !present, mapping.offset, mapping.device, mapping.inode};
}

}  // namespace rocemu::provider
