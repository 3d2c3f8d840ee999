// SPDX-License-Identifier: BSD-3-Clause
// dest_qp_of: the destination QP of a frame, for dispatch to its owner before anything has been checked; the owner's
// full parse decides later. The peer chooses the UDP source port, so only the BTH tells whose a packet is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/bth.h"
#include "wire/eth.h"
#include "wire/network_type.h"
#include "wire/udp.h"

namespace rocemu::wire {

inline constexpr uint32_t kNoDestQp = 0xffffffff;

// Offset of the BTH, 0 if this is no RoCE packet or too short for one. Any bytes are safe.
[[nodiscard]] inline size_t find_bth(std::span<const std::byte> frame) {
    size_t l3 = EthHeader::kSize;
    if (frame.size() < l3 + VlanTag::kSize) return 0;
    auto type = load_be<uint16_t>(frame.data() + 12);
    if (type == kEtherTypeVlan) {
        type = load_be<uint16_t>(frame.data() + 16);
        l3 += VlanTag::kSize;
    }
    if (type == kEtherTypeRoceV1) {
        const size_t bth = l3 + bth_offset(NetworkType::RoceV1);
        return frame.size() < bth + Bth::kSize ? 0 : bth;
    }
    if (type != kEtherTypeIpv4 && type != kEtherTypeIpv6) return 0;
    const bool v4 = type == kEtherTypeIpv4;
    const size_t bth = l3 + bth_offset(v4 ? NetworkType::V2Ipv4 : NetworkType::V2Ipv6);
    if (frame.size() < bth + Bth::kSize) return 0;
    const std::byte* p = frame.data() + l3;
    const bool udp = load_be<uint8_t>(p + (v4 ? 9 : 6)) == 17 && (!v4 || load_be<uint8_t>(p) == 0x45);
    return udp && load_be<uint16_t>(frame.data() + bth - 6) == kRoceUdpPort ? bth : 0;
}

// kNoDestQp: no RoCE packet.
[[nodiscard]] inline uint32_t dest_qp_of(std::span<const std::byte> frame) {
    const size_t bth = find_bth(frame);
    return bth == 0 ? kNoDestQp : load_be24(frame.data() + bth + 5);
}

// The low 8 bits of a QPN are a bucket; this is the one place that says which shard serves it.
[[nodiscard]] constexpr uint32_t shard_of_qpn(uint32_t qpn, uint32_t shards) {
    return (qpn & 0xff) % shards;
}

}  // namespace rocemu::wire
