// SPDX-License-Identifier: BSD-3-Clause
// KeyAllocator: lkeys and rkeys (equal for one MR). Bits 31:8 are an index into every shard's key table, bits 7:0 a
// variant that changes each time the index is used again: a stale rkey of a peer hits nothing.
// Read IBTA volume 1, 10.6.3.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "control/id_pool.h"

namespace rocemu::control {

class KeyAllocator {
  public:
    std::optional<uint32_t> take() {
        const auto index = indices_.take();
        if (!index) return std::nullopt;
        if (variants_.size() <= *index) variants_.resize(*index + 1);
        return *index << 8 | ++variants_[*index];
    }
    void give_back(uint32_t key) { indices_.give_back(key >> 8); }

  private:
    IdPool indices_{1, 1u << 24};  // key 0 is nobody's
    std::vector<uint8_t> variants_;
};

}  // namespace rocemu::control
