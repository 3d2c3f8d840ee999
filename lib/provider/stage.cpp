// SPDX-License-Identifier: BSD-3-Clause
// See stage.h. The lowest place that fits, so that what is used again soon is still in the caches; aligned to its size
// rounded up, so that small extents do not cut up the room for large ones.
#include "provider/stage.h"

#include <bit>

namespace rocemu::provider {
namespace {

uint64_t mask_of(uint32_t blocks) { return blocks == 64 ? ~uint64_t{0} : (uint64_t{1} << blocks) - 1; }

}  // namespace

Extent Stage::allocate(uint32_t bytes) {
    const uint32_t blocks = (bytes + abi::kStageBlock - 1) / abi::kStageBlock;
    if (blocks == 0 || bytes > abi::kMaxCapture) return {};
    const uint32_t step = std::bit_ceil(blocks);
    const uint64_t mask = mask_of(blocks);
    Guard guard(lock_);
    for (uint32_t w = 0; w < kWords; ++w) {
        if (used_[w] == ~uint64_t{0}) continue;
        for (uint32_t bit = 0; bit < kWordBlocks; bit += step) {
            if ((used_[w] & mask << bit) != 0) continue;
            used_[w] |= mask << bit;
            return {static_cast<uint16_t>(w * kWordBlocks + bit), static_cast<uint16_t>(blocks)};
        }
    }
    return {};
}

void Stage::free(Extent extent) {
    Guard guard(lock_);
    used_[extent.first / kWordBlocks] &= ~(mask_of(extent.blocks) << extent.first % kWordBlocks);
}

}  // namespace rocemu::provider
