// SPDX-License-Identifier: BSD-3-Clause
// See mapped_file.h.
#include "control/mapped_file.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace rocemu::control {
namespace {

// Of all sessions together: neither mappings (vm.max_map_count) nor address space may end because of programs.
constexpr uint64_t kMostFiles = 16384;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
uint64_t files, bytes_mapped;  // control thread only

}  // namespace

std::shared_ptr<MappedFile> MappedFile::create(int fd, const Place& place, uint64_t length, bool writable) {
    struct stat st {};
    struct statfs fs {};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC) return nullptr;
    if (st.st_dev != place.device || st.st_ino != place.inode) return nullptr;
    const uint64_t offset = place.offset;
    const auto size = static_cast<uint64_t>(st.st_size);
    if (length == 0 || offset > size || length > size - offset) return nullptr;
    if (files >= kMostFiles || bytes_mapped > kMostBytes || length > kMostBytes - bytes_mapped) return nullptr;
    static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t skip = offset % page;
    void* p = mmap(nullptr, length + skip, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
                   static_cast<off_t>(offset - skip));
    if (p == MAP_FAILED) return nullptr;
    ++files;
    bytes_mapped += length + skip;
    return std::shared_ptr<MappedFile>(new MappedFile(static_cast<std::byte*>(p), length + skip, skip));
}

MappedFile::~MappedFile() {
    munmap(base_, bytes_);
    --files;
    bytes_mapped -= bytes_;
}

}  // namespace rocemu::control
