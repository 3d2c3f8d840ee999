// SPDX-License-Identifier: BSD-3-Clause
// FrameCache: a small stock of free frames in front of a FramePool, so that a batch gets its frames by one call, and
// unused ones are kept for the next. Shard only.
#pragma once

#include <array>
#include <span>

#include "engine/port.h"

namespace rocemu::engine {

class FrameCache {
  public:
    static constexpr size_t kStock = 128;

    explicit FrameCache(FramePool& pool) : pool_(pool) {}
    ~FrameCache() { pool_.free({frames_.data(), count_}); }
    FrameCache(const FrameCache&) = delete;
    FrameCache& operator=(const FrameCache&) = delete;

    // At least `n` (<= kStock / 2) are at hand; false: the pool is exhausted, try again later.
    bool reserve(size_t n) {
        if (count_ >= n) return true;
        // No more than is asked for: what the pool gives first was freed last and is in the nearest cache.
        if (!pool_.alloc({frames_.data() + count_, n - count_})) return false;
        count_ = n;
        return true;
    }
    // Precondition: reserve() promised it.
    Frame take() { return frames_[--count_]; }
    void give_back(Frame frame) {
        frame.length = 0;
        if (count_ < kStock)
            frames_[count_++] = frame;
        else
            pool_.free({&frame, 1});
    }
    void free(std::span<Frame> frames) { pool_.free(frames); }

  private:
    FramePool& pool_;
    size_t count_ = 0;
    std::array<Frame, kStock> frames_;
};

}  // namespace rocemu::engine
