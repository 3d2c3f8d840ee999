// SPDX-License-Identifier: BSD-3-Clause
// MappedFile: application memory that the daemon maps too, because it is a file whose descriptor the provider found.
// Only files in memory (tmpfs): they cannot make the reader wait. They can be truncated, so they are touched by
// guard::copy alone. See mmap(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace rocemu::control {

class MappedFile {
  public:
    // Which file it is said to be, and where in it.
    struct Place {
        uint64_t device = 0, inode = 0, offset = 0;
    };
    // nullptr: not that file, not such a one, not as long as it is said to be, not writable, or no address space.
    static std::shared_ptr<MappedFile> create(int fd, const Place& place, uint64_t length, bool writable);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    // Of the byte at `offset`.
    [[nodiscard]] std::byte* address() const { return base_ + skip_; }

  private:
    MappedFile(std::byte* base, uint64_t bytes, uint64_t skip) : base_(base), bytes_(bytes), skip_(skip) {}
    std::byte* base_;
    uint64_t bytes_, skip_;
};

}  // namespace rocemu::control
