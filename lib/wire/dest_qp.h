// SPDX-License-Identifier: BSD-3-Clause
// dest_qp_of: the destination QP of a frame, for dispatch to its owner before anything has been checked; the owner's
// full parse decides later. The peer chooses the UDP source port, so only the BTH tells whose a packet is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/eth.h"
#include "wire/network_type.h"
#include "wire/udp.h"

namespace rocemu::wire {

inline constexpr uint32_t kNoDestQp = 0xffffffff;

// Any bytes are safe. kNoDestQp: no RoCE packet.
[[nodiscard]] inline uint32_t dest_qp_of(std::span<const std::byte> frame) {
    size_t l3 = EthHeader::kSize;
    if (frame.size() < l3 + VlanTag::kSize) return kNoDestQp;
    auto type = load_be<uint16_t>(frame.data() + 12);
    if (type == kEtherTypeVlan) {
        type = load_be<uint16_t>(frame.data() + 16);
        l3 += VlanTag::kSize;
    }
    size_t bth = 0;
    const std::byte* p = frame.data() + l3;
    if (type == kEtherTypeIpv4 || type == kEtherTypeIpv6) {
        const bool v4 = type == kEtherTypeIpv4;
        bth = l3 + bth_offset(v4 ? NetworkType::V2Ipv4 : NetworkType::V2Ipv6);
        if (frame.size() < bth + 8) return kNoDestQp;
        const auto protocol = load_be<uint8_t>(p + (v4 ? 9 : 6));
        if (protocol != 17 || (v4 && load_be<uint8_t>(p) != 0x45)) return kNoDestQp;
        if (load_be<uint16_t>(frame.data() + bth - 6) != kRoceUdpPort) return kNoDestQp;
    } else if (type == kEtherTypeRoceV1) {
        bth = l3 + bth_offset(NetworkType::RoceV1);
        if (frame.size() < bth + 8) return kNoDestQp;
    } else {
        return kNoDestQp;
    }
    return load_be24(frame.data() + bth + 5);
}

// The low 8 bits of a QPN are a bucket; this is the one place that says which shard serves it.
[[nodiscard]] constexpr uint32_t shard_of_qpn(uint32_t qpn, uint32_t shards) { return (qpn & 0xff) % shards; }

}  // namespace rocemu::wire
