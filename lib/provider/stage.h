// SPDX-License-Identifier: BSD-3-Clause
// Stage: this side of abi/stage.h: which blocks of the session's stage are in use. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/stage.h"
#include "provider/spinlock.h"

namespace rocemu::provider {

// A run of blocks; zero: none.
struct Extent {
    uint16_t first = 0;
    uint16_t blocks = 0;
};

class Stage {
  public:
    void set_up(std::byte* base) { base_ = base; }
    [[nodiscard]] bool there() const { return base_ != nullptr; }
    // For 1 to kMaxCapture bytes; an extent of no blocks: there is no room.
    [[nodiscard]] Extent allocate(uint32_t bytes);
    void free(Extent extent);
    [[nodiscard]] std::byte* at(Extent extent) const { return base_ + offset(extent); }
    [[nodiscard]] static uint32_t offset(Extent extent) { return extent.first * abi::kStageBlock; }

  private:
    static constexpr uint32_t kWordBlocks = 64;
    static constexpr uint32_t kWords = abi::kStageBytes / abi::kStageBlock / kWordBlocks;
    static_assert(abi::kMaxCapture <= kWordBlocks * abi::kStageBlock, "an extent lies in one word");

    Spinlock lock_;
    std::byte* base_ = nullptr;
    uint64_t used_[kWords] = {};  // bit: block
};

}  // namespace rocemu::provider
