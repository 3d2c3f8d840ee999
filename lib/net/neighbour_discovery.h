// SPDX-License-Identifier: BSD-3-Clause
// Neighbour discovery for IPv6 GIDs: the solicitation we send, the advertisement we answer with, and what both tell.
// Read RFC 4861 sections 4.3, 4.4 and 7.2, RFC 4443 2.3 (checksum), RFC 2464 7 (multicast MAC address).
#pragma once

#include <array>
#include <optional>
#include <span>

#include "wire/eth.h"
#include "wire/gid.h"

namespace rocemu::net {

struct NdMessage {
    bool solicitation = false;                     // else advertisement
    wire::Gid source;                              // of the IPv6 header; zero in duplicate address detection
    wire::Gid target;                              // whose MAC address is asked for or told
    wire::MacAddress source_mac{};                 // of the Ethernet header
    std::optional<wire::MacAddress> link_address;  // source (solicitation) or target (advertisement) option

    // `bytes` is an IPv6 packet. nullopt: no neighbour solicitation or advertisement, or hop limit below 255 (RFC 4861
    // 7.1: it came through a router), or a wrong checksum.
    [[nodiscard]] static std::optional<NdMessage> parse(std::span<const std::byte> bytes, const wire::EthHeader& eth);
};

// Ethernet, IPv6, ICMPv6 with target and one link-layer address option.
inline constexpr size_t kNdFrameSize = 14 + 40 + 32;
using NdFrame = std::array<std::byte, kNdFrameSize>;

[[nodiscard]] NdFrame neighbour_solicitation(const wire::MacAddress& our_mac, const wire::Gid& our_gid,
                                             const wire::Gid& target);
// Answers `asked`, whose target is ours.
[[nodiscard]] NdFrame neighbour_advertisement(const wire::MacAddress& our_mac, const NdMessage& asked);

}  // namespace rocemu::net
