// SPDX-License-Identifier: BSD-3-Clause
// ArpPacket: ARP for IPv4 over Ethernet, and the two frames a NIC sends: a request for a neighbour and the reply to
// somebody who asks for one of ours. Read RFC 826 and RFC 5227 (probes and announcements carry no or our address).
#pragma once

#include <array>
#include <optional>
#include <span>

#include "wire/eth.h"

namespace rocemu::net {

enum class ArpOperation : uint16_t { Request = 1, Reply = 2 };

struct ArpPacket {
    static constexpr size_t kSize = 28;

    ArpOperation operation = ArpOperation::Request;
    wire::MacAddress sender_mac{};
    uint32_t sender_ip = 0;  // host order
    wire::MacAddress target_mac{};
    uint32_t target_ip = 0;

    // `bytes` begins behind the EtherType. nullopt: too short, not IPv4 over Ethernet, or neither request nor reply.
    [[nodiscard]] static std::optional<ArpPacket> parse(std::span<const std::byte> bytes);
    void write(std::byte* p) const;
    // The sender tells its own address: worth learning. RFC 5227: a probe (sender 0.0.0.0) does not.
    [[nodiscard]] bool tells_sender() const { return sender_ip != 0 && !wire::is_multicast(sender_mac); }
};

// Ethernet header and ARP, padded to the minimum Ethernet payload.
inline constexpr size_t kArpFrameSize = 60;
using ArpFrame = std::array<std::byte, kArpFrameSize>;

// Asks everybody for `target_ip`.
[[nodiscard]] ArpFrame arp_request(const wire::MacAddress& our_mac, uint32_t our_ip, uint32_t target_ip);
// Answers `request`, which asked for an address of ours (the caller has checked).
[[nodiscard]] ArpFrame arp_reply(const wire::MacAddress& our_mac, const ArpPacket& request);

}  // namespace rocemu::net
