// SPDX-License-Identifier: BSD-3-Clause
// ArpPacket: parse and build. Read RFC 826: hardware type, protocol type, lengths, operation, sender, target.
#include "net/arp.h"

#include <algorithm>

namespace rocemu::net {
namespace {

constexpr uint16_t kHardwareEthernet = 1;

ArpFrame frame_of(const wire::MacAddress& dst, const ArpPacket& packet) {
    ArpFrame frame{};
    wire::EthHeader{dst, packet.sender_mac, wire::kEtherTypeArp}.write(frame.data());
    packet.write(frame.data() + wire::EthHeader::kSize);
    return frame;
}

}  // namespace

std::optional<ArpPacket> ArpPacket::parse(std::span<const std::byte> bytes) {
    if (bytes.size() < kSize) return std::nullopt;
    const std::byte* p = bytes.data();
    if (load_be<uint16_t>(p) != kHardwareEthernet || load_be<uint16_t>(p + 2) != wire::kEtherTypeIpv4)
        return std::nullopt;
    if (p[4] != std::byte{6} || p[5] != std::byte{4}) return std::nullopt;
    const auto operation = load_be<uint16_t>(p + 6);
    if (operation != 1 && operation != 2) return std::nullopt;
    ArpPacket a;
    a.operation = static_cast<ArpOperation>(operation);
    std::memcpy(a.sender_mac.data(), p + 8, 6);
    a.sender_ip = load_be<uint32_t>(p + 14);
    std::memcpy(a.target_mac.data(), p + 18, 6);
    a.target_ip = load_be<uint32_t>(p + 24);
    return a;
}

void ArpPacket::write(std::byte* p) const {
    store_be<uint16_t>(p, kHardwareEthernet);
    store_be<uint16_t>(p + 2, wire::kEtherTypeIpv4);
    p[4] = std::byte{6};
    p[5] = std::byte{4};
    store_be<uint16_t>(p + 6, static_cast<uint16_t>(operation));
    std::memcpy(p + 8, sender_mac.data(), 6);
    store_be<uint32_t>(p + 14, sender_ip);
    std::memcpy(p + 18, target_mac.data(), 6);
    store_be<uint32_t>(p + 24, target_ip);
}

ArpFrame arp_request(const wire::MacAddress& our_mac, uint32_t our_ip, uint32_t target_ip) {
    return frame_of(wire::kBroadcastMac, {ArpOperation::Request, our_mac, our_ip, {}, target_ip});
}

ArpFrame arp_reply(const wire::MacAddress& our_mac, const ArpPacket& request) {
    return frame_of(request.sender_mac,
                    {ArpOperation::Reply, our_mac, request.target_ip, request.sender_mac, request.sender_ip});
}

}  // namespace rocemu::net
