// SPDX-License-Identifier: BSD-3-Clause
// See guarded_copy.h.
#include "provider/guarded_copy.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace rocemu::provider {
namespace {

constexpr uint32_t kLastBytes = 8;

bool populate_write(void* page, size_t bytes) {
    constexpr int kMadvPopulateWrite = 23;  // Linux 5.14
    return madvise(page, bytes, kMadvPopulateWrite) == 0;
}

// Makes the page present and writable without changing it, so that the atomic that follows does not fault.
// DEVIATION: memory that is unmapped between this call and the atomic instruction still raises a signal in the
// application; only a program that frees a region while a peer may still use it can get there. On kernels before 5.14
// a page that is readable is taken for writable.
bool populate(uint64_t va) {
    static const auto page_size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    void* page = reinterpret_cast<void*>(va & ~(page_size - 1));
    if (populate_write(page, page_size)) return true;
    // EINVAL means a protected page or a kernel that has no such advice: our own stack tells which.
    if (errno != EINVAL) return false;
    uint64_t value = 0;
    void* own = reinterpret_cast<void*>(reinterpret_cast<uint64_t>(&value) & ~(page_size - 1));
    if (populate_write(own, page_size)) return false;
    const iovec local{&value, sizeof value}, remote{reinterpret_cast<void*>(va), sizeof value};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof value;
}

}  // namespace

bool GuardedCopy::from_memory(uint64_t va, uint32_t offset, uint32_t length) const {
    uint32_t done = 0;
    while (done < length) {
        const ssize_t n = pwrite(fd_, reinterpret_cast<const void*>(va + done), length - done,
                                 static_cast<off_t>(stage_ + offset + done));
        if (n <= 0) {
            if (n < 0 && errno == EINTR) continue;
            return false;
        }
        done += static_cast<uint32_t>(n);
    }
    return true;
}

bool GuardedCopy::to_memory(uint64_t va, uint32_t offset, uint32_t length) const {
    uint32_t done = 0;
    while (done < length) {
        const uint32_t left = length - done;
        const uint32_t last = std::min(left, kLastBytes);
        const iovec parts[2] = {{reinterpret_cast<void*>(va + done), left - last},
                                {reinterpret_cast<void*>(va + length - last), last}};
        const bool all_last = left == last;
        const ssize_t n = preadv(fd_, all_last ? parts + 1 : parts, all_last ? 1 : 2,
                                 static_cast<off_t>(stage_ + offset + done));
        if (n <= 0) {
            if (n < 0 && errno == EINTR) continue;
            return false;
        }
        done += static_cast<uint32_t>(n);
    }
    return true;
}

bool GuardedCopy::compare_swap(uint64_t va, uint64_t compare, uint64_t swap, uint64_t* original) {
    if (va % 8 != 0 || !populate(va)) return false;
    *original = compare;
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(va)).compare_exchange_strong(*original, swap);
    return true;
}

bool GuardedCopy::fetch_add(uint64_t va, uint64_t add, uint64_t* original) {
    if (va % 8 != 0 || !populate(va)) return false;
    *original = std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(va)).fetch_add(add);
    return true;
}

}  // namespace rocemu::provider
