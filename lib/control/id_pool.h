// SPDX-License-Identifier: BSD-3-Clause
// IdPool: small numbers for objects. A freed number is reused as late as possible, so that a stale reference (an event
// under way, a program's mistake) rarely finds somebody else's object.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace rocemu::control {

class IdPool {
  public:
    // Numbers first … limit - 1.
    IdPool(uint32_t first, uint32_t limit) : next_(first), limit_(limit) {}

    std::optional<uint32_t> take() {
        if (next_ < limit_ && freed_.size() < kKeepFreed) return next_++;
        if (freed_.empty()) return std::nullopt;
        const uint32_t id = freed_.front();
        freed_.pop_front();
        return id;
    }
    void give_back(uint32_t id) { freed_.push_back(id); }

  private:
    static constexpr size_t kKeepFreed = 1024;  // so many numbers rest before the first is used again
    uint32_t next_, limit_;
    std::deque<uint32_t> freed_;
};

}  // namespace rocemu::control
