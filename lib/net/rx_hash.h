// SPDX-License-Identifier: BSD-3-Clause
// Receive hashing: which of several receive queues a frame goes to. Toeplitz over the chosen fields, in the order source
// address, destination address, source port, destination port. Read "RSS hash types" of Microsoft's RSS specification
// and the ibv_create_qp_ex man page (rx_hash_conf).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/flow_key.h"

namespace rocemu::net {

inline constexpr size_t kRxHashKeyBytes = 40;

// enum ibv_rx_hash_fields.
namespace rx_hash_fields {
inline constexpr uint32_t kSrcIpv4 = 1, kDstIpv4 = 2, kSrcIpv6 = 4, kDstIpv6 = 8, kSrcPortTcp = 16, kDstPortTcp = 32,
                          kSrcPortUdp = 64, kDstPortUdp = 128, kAll = 255;
inline constexpr uint32_t kIpv4 = kSrcIpv4 | kDstIpv4, kIpv6 = kSrcIpv6 | kDstIpv6,
                          kTcp = kSrcPortTcp | kDstPortTcp, kUdp = kSrcPortUdp | kDstPortUdp;
}  // namespace rx_hash_fields

struct RxHash {
    std::array<uint8_t, kRxHashKeyBytes> key{};
    uint32_t fields = 0;  // rx_hash_fields
};

// One family of addresses and one of ports at most.
[[nodiscard]] constexpr bool valid_rx_hash_fields(uint64_t fields) {
    using namespace rx_hash_fields;
    return (fields & ~uint64_t{kAll}) == 0 && !((fields & kIpv4) && (fields & kIpv6)) &&
           !((fields & kTcp) && (fields & kUdp));
}

// Precondition: at least four bytes fewer than the key has.
[[nodiscard]] uint32_t toeplitz(std::span<const uint8_t, kRxHashKeyBytes> key, std::span<const uint8_t> input);

// 0 for frames that lack one of the fields.
[[nodiscard]] uint32_t rx_hash_of(const RxHash& hash, const FlowKey& frame);

}  // namespace rocemu::net
