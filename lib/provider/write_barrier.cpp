// SPDX-License-Identifier: BSD-3-Clause
// See write_barrier.h. A page that was never touched has no entry that could be protected before Linux 6.4: it is read
// first, which gives it one.
#include "provider/write_barrier.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rocemu::provider {
namespace {

constexpr uint64_t kNeeded = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
constexpr uint64_t kUnpopulated = 1u << 13;  // UFFD_FEATURE_WP_UNPOPULATED, not in every libc's headers

int open_descriptor() { return static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)); }

// What the kernel can do, or -errno. A descriptor answers only once.
int64_t features() {
    const int fd = open_descriptor();
    if (fd < 0) return -errno;
    uffdio_api api{};
    api.api = UFFD_API;
    const int rc = ioctl(fd, UFFDIO_API, &api) == 0 ? 0 : errno;
    close(fd);
    return rc == 0 ? static_cast<int64_t>(api.features & INT64_MAX) : -rc;
}

// The same, asked once where it succeeds.
int64_t known_features() {
    static std::atomic<int64_t> known{0};
    int64_t found = known.load(std::memory_order_relaxed);
    if (found > 0) return found;
    found = features();
    if (found > 0) known.store(found, std::memory_order_relaxed);
    return found;
}

// No signal where memory is not there, unlike a look at it.
void populate(uint64_t start, uint64_t bytes) {
    constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ (Linux 5.14), not in every libc's headers
    madvise(reinterpret_cast<void*>(start), bytes, kPopulateRead);
}

}  // namespace

int WriteBarrier::available() {
    const int64_t found = known_features();
    if (found < 0) return static_cast<int>(-found);
    return (static_cast<uint64_t>(found) & kNeeded) == kNeeded ? 0 : EOPNOTSUPP;
}

WriteBarrier::~WriteBarrier() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
}

int WriteBarrier::open(uint64_t start, uint64_t bytes) {
    if (const int error = available()) return error;
    fd_ = open_descriptor();
    if (fd_ < 0) return errno;
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = kNeeded | (static_cast<uint64_t>(known_features()) & kUnpopulated);
    if (ioctl(fd_, UFFDIO_API, &api) != 0) return errno;
    uffdio_register range{};
    range.range = {start, bytes};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(fd_, UFFDIO_REGISTER, &range) == 0 ? 0 : errno;
}

int WriteBarrier::hold(uint64_t start, uint64_t bytes) {
    populate(start, bytes);
    uffdio_writeprotect protect{};
    protect.range = {start, bytes};
    protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    if (ioctl(fd_, UFFDIO_WRITEPROTECT, &protect) == 0) return 0;
    const int error = errno;
    release(start, bytes);
    return error;
}

void WriteBarrier::release(uint64_t start, uint64_t bytes) {
    uffdio_writeprotect protect{};
    protect.range = {start, bytes};
    ioctl(fd_, UFFDIO_WRITEPROTECT, &protect);  // wakes too; if the range is gone so is the protection
    wake(start, bytes);
}

void WriteBarrier::wake(uint64_t start, uint64_t bytes) {
    uffdio_range range{start, bytes};
    ioctl(fd_, UFFDIO_WAKE, &range);
}

}  // namespace rocemu::provider
