// SPDX-License-Identifier: BSD-3-Clause
// FdList: file descriptors that came with a control message. It owns them: what nobody takes is closed.
#pragma once

#include <cstddef>

#include <unistd.h>

#include "abi/messages.h"

namespace rocemu::provider {

class FdList {
  public:
    static constexpr size_t kCapacity = 1 + abi::kMaxShards;

    FdList() = default;
    ~FdList() { clear(); }
    FdList(const FdList&) = delete;
    FdList& operator=(const FdList&) = delete;

    [[nodiscard]] size_t size() const { return count_; }
    void add(int fd) {
        if (count_ == kCapacity) {
            close(fd);
            return;
        }
        fds_[count_++] = fd;
    }
    // The descriptor becomes the caller's; -1 if there is none at that place.
    int take(size_t index) {
        if (index >= count_) return -1;
        const int fd = fds_[index];
        fds_[index] = -1;
        return fd;
    }
    void move_to(FdList& to) {
        for (size_t i = 0; i < count_; ++i) to.add(take(i));
        count_ = 0;
    }
    void clear() {
        for (size_t i = 0; i < count_; ++i)
            if (fds_[i] >= 0) close(fds_[i]);
        count_ = 0;
    }

  private:
    int fds_[kCapacity] = {};
    size_t count_ = 0;
};

}  // namespace rocemu::provider
