// SPDX-License-Identifier: BSD-3-Clause
// QpnAllocator: see qpn_allocator.h. The sequence of shard s of S: its buckets s, s+S, s+2S… with high part 1, then the
// same buckets with high part 2, and so on; the high part never is 0, which keeps away from QP0 and QP1.
#include "control/qpn_allocator.h"

#include <algorithm>

namespace rocemu::control {

QpnAllocator::QpnAllocator(uint32_t shards) : load_(shards), cursor_(shards), used_(kNumbers) {
    used_[kNumbers - 1] = true;
}

uint32_t QpnAllocator::least_loaded() const {
    return static_cast<uint32_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
}

std::optional<uint32_t> QpnAllocator::take(uint32_t shard) {
    const auto shards = static_cast<uint32_t>(load_.size());
    const uint32_t buckets = (256 - shard + shards - 1) / shards;
    const uint32_t all = buckets * 0xffff;
    for (uint32_t i = 0; i < all; ++i) {
        const uint32_t k = cursor_[shard]++ % all;
        const uint32_t qpn = (1 + k / buckets) << 8 | (shard + k % buckets * shards);
        if (used_[qpn]) continue;
        used_[qpn] = true;
        ++load_[shard];
        return qpn;
    }
    return std::nullopt;
}

void QpnAllocator::give_back(uint32_t qpn) {
    used_[qpn] = false;
    --load_[shard_of(qpn)];
}

}  // namespace rocemu::control
