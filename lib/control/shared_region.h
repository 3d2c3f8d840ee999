// SPDX-License-Identifier: BSD-3-Clause
// SharedRegion: a memfd shared with one application. Sealed against shrinking and growing before anybody maps it: no
// application can make the daemon die of SIGBUS by truncating. Zero when made. See memfd_create(2), fcntl(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "control/unique_fd.h"

namespace rocemu::control {

class SharedRegion {
  public:
    // nullptr with errno set.
    static std::unique_ptr<SharedRegion> create(uint64_t bytes);
    ~SharedRegion();
    SharedRegion(const SharedRegion&) = delete;
    SharedRegion& operator=(const SharedRegion&) = delete;

    [[nodiscard]] std::byte* address() const { return address_; }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    // Once, then there is none: the mapping stays, but 64k queue pairs must not need 64k descriptors.
    UniqueFd take_fd() { return std::move(fd_); }

  private:
    SharedRegion(UniqueFd fd, std::byte* address, uint64_t bytes)
        : fd_(std::move(fd)), address_(address), bytes_(bytes) {}
    UniqueFd fd_;
    std::byte* address_;
    uint64_t bytes_;
};

}  // namespace rocemu::control
