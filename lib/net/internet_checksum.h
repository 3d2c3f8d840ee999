// SPDX-License-Identifier: BSD-3-Clause
// The checksum of the Internet protocols. Read RFC 1071; RFC 4443 2.3 for the pseudo-header of ICMPv6.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "wire/gid.h"

namespace rocemu::net {

inline constexpr uint8_t kIcmpv6 = 58;

// Of `bytes` with their checksum field as zero: what belongs there. As it was sent: 0 if it is right.
[[nodiscard]] inline uint16_t internet_checksum(std::span<const std::byte> bytes, uint64_t sum = 0) {
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be<uint16_t>(bytes.data() + i);
    if (bytes.size() % 2) sum += static_cast<uint64_t>(bytes.back()) << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
}

// Over source, destination, length and next header, then the message.
[[nodiscard]] inline uint16_t icmpv6_checksum(const wire::Gid& src, const wire::Gid& dst, std::span<const std::byte> message) {
    uint64_t sum = message.size() + kIcmpv6;
    std::byte addresses[32];
    src.write(addresses);
    dst.write(addresses + 16);
    for (size_t i = 0; i < sizeof addresses; i += 2) sum += load_be<uint16_t>(addresses + i);
    return internet_checksum(message, sum);
}

}  // namespace rocemu::net
