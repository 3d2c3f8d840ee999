// SPDX-License-Identifier: BSD-3-Clause
// The invariant CRC that ends every RoCE packet. Read IBTA volume 1, 7.8.1, annex A16 (v1) and A17.3.3 (CA17-22).
//
// It covers 64 one-bits (they stand for the LRH of InfiniBand), then layer 3 up to the ICRC, with the fields that
// change in flight replaced by ones: IPv4 TOS, TTL, header checksum; IPv6/GRH traffic class, flow label, hop limit;
// UDP checksum; BTH byte 4 (FECN, BECN, reserved). Pad bytes are covered. It is stored little-endian.
#pragma once

#include <cstring>
#include <span>

#include "wire/crc32.h"
#include "wire/network_type.h"
#include "wire/packet_view.h"

namespace rocemu::wire {

// CRC-32 state after the 64 one-bits that begin every ICRC.
inline constexpr uint32_t kIcrcSeed = 0xdebb20e3;

// Packets of up to so many bytes of layer 3 are cheapest summed as a whole (icrc_of_packet), longer ones in parts.
inline constexpr size_t kShortPacket = 256;

// CRC state after the masked headers: `headers` is layer 3 up to the payload (at least up to the end of the BTH).
// Continue with payload and pad by crc32_update, crc32_copy or crc32_combine and end with icrc_finish.
[[nodiscard]] uint32_t icrc_header_part(std::span<const std::byte> headers, NetworkType network);

// The same, and payload copied to `to` behind it: cheaper than icrc_header_part and crc32_copy.
[[nodiscard]] uint32_t icrc_headers_and_copy(std::span<const std::byte> headers, NetworkType network, std::byte* to,
                                             std::span<const std::byte> payload);

// The ICRC for a state that has seen everything: the value whose little-endian bytes are on the wire.
[[nodiscard]] constexpr uint32_t icrc_finish(uint32_t state) {
    return ~state;
}

// The whole in one: `l3` is layer 3 up to, not including, the ICRC. Any size is safe; less than a BTH gives a value
// that means nothing.
[[nodiscard]] uint32_t icrc_of_packet(std::span<const std::byte> l3, NetworkType network);

[[nodiscard]] inline bool icrc_matches(const PacketView& packet) {
    return icrc_of_packet(packet.l3, packet.network) == packet.icrc;
}

inline void store_icrc(std::byte* p, uint32_t icrc) {
    std::memcpy(p, &icrc, sizeof icrc);
}
[[nodiscard]] inline uint32_t load_icrc(const std::byte* p) {
    uint32_t icrc;
    std::memcpy(&icrc, p, sizeof icrc);
    return icrc;
}

}  // namespace rocemu::wire
