// SPDX-License-Identifier: BSD-3-Clause
// QpnAllocator: queue pair numbers. The low 8 bits are a bucket and say which shard owns the QP (bucket modulo number
// of shards), so a received packet finds its shard from the BTH alone. Numbers run upwards per shard and come back only
// after a whole round: packets of a dead connection do not hit the next one. 0, 1 and 0xFFFFFF are not ours to give
// (IBTA volume 1, 3.5.10: QP0, QP1, multicast).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wire/dest_qp.h"

namespace rocemu::control {

class QpnAllocator {
  public:
    explicit QpnAllocator(uint32_t shards);

    std::optional<uint32_t> take(uint32_t shard);
    void give_back(uint32_t qpn);
    // The shard with the fewest QPs.
    [[nodiscard]] uint32_t least_loaded() const;
    [[nodiscard]] uint32_t shard_of(uint32_t qpn) const {
        return wire::shard_of_qpn(qpn, static_cast<uint32_t>(load_.size()));
    }

  private:
    static constexpr uint32_t kNumbers = 1u << 24;
    std::vector<uint32_t> load_;    // QPs per shard
    std::vector<uint32_t> cursor_;  // per shard: position in its own sequence of numbers
    std::vector<bool> used_;
};

}  // namespace rocemu::control
