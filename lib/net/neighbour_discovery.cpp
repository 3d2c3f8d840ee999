// SPDX-License-Identifier: BSD-3-Clause
// Neighbour solicitation and advertisement: parse and build. Read RFC 4861 4.3, 4.4.
#include "net/neighbour_discovery.h"

#include "net/internet_checksum.h"
#include "wire/ipv6.h"

namespace rocemu::net {
namespace {

constexpr uint8_t kSolicit = 135, kAdvertise = 136;
constexpr uint8_t kSourceLinkAddress = 1, kTargetLinkAddress = 2;
constexpr size_t kBodySize = 24;  // type, code, checksum, flags, target
constexpr uint32_t kFlagSolicited = 0x40000000, kFlagOverride = 0x20000000;

NdFrame frame_of(const wire::MacAddress& our_mac, const wire::MacAddress& dst_mac, const wire::Gid& src,
                 const wire::Gid& dst, uint8_t type, uint32_t flags, const wire::Gid& target) {
    NdFrame frame{};
    wire::EthHeader{dst_mac, our_mac, wire::kEtherTypeIpv6}.write(frame.data());
    wire::Ipv6Header ip;
    ip.payload_length = kBodySize + 8;
    ip.next_header = kIcmpv6;
    ip.hop_limit = 255;
    ip.src = src;
    ip.dst = dst;
    ip.write(frame.data() + wire::EthHeader::kSize);
    std::byte* p = frame.data() + wire::EthHeader::kSize + wire::Ipv6Header::kSize;
    p[0] = std::byte{type};
    store_be<uint32_t>(p + 4, flags);
    target.write(p + 8);
    p[24] = std::byte{type == kSolicit ? kSourceLinkAddress : kTargetLinkAddress};
    p[25] = std::byte{1};  // units of 8 bytes
    std::memcpy(p + 26, our_mac.data(), 6);
    store_be<uint16_t>(p + 2, icmpv6_checksum(src, dst, {p, kBodySize + 8}));
    return frame;
}

}  // namespace

std::optional<NdMessage> NdMessage::parse(std::span<const std::byte> bytes, const wire::EthHeader& eth) {
    if (bytes.size() < wire::Ipv6Header::kSize + kBodySize) return std::nullopt;
    const auto ip = wire::Ipv6Header::parse(bytes.data());
    if (ip.version != 6 || ip.next_header != kIcmpv6 || ip.hop_limit != 255) return std::nullopt;
    if (ip.payload_length < kBodySize || bytes.size() - wire::Ipv6Header::kSize < ip.payload_length)
        return std::nullopt;
    const auto message = bytes.subspan(wire::Ipv6Header::kSize, ip.payload_length);
    const auto type = static_cast<uint8_t>(message[0]);
    if (type != kSolicit && type != kAdvertise) return std::nullopt;
    if (icmpv6_checksum(ip.src, ip.dst, message) != 0) return std::nullopt;

    NdMessage m;
    m.solicitation = type == kSolicit;
    m.source = ip.src;
    m.target = wire::Gid::from_bytes(message.data() + 8);
    m.source_mac = eth.src;
    const uint8_t wanted = m.solicitation ? kSourceLinkAddress : kTargetLinkAddress;
    for (size_t at = kBodySize; at + 8 <= message.size();) {
        const size_t length = static_cast<size_t>(message[at + 1]) * 8;
        if (length == 0 || at + length > message.size()) break;
        if (static_cast<uint8_t>(message[at]) == wanted) {
            wire::MacAddress mac;
            std::memcpy(mac.data(), message.data() + at + 2, mac.size());
            m.link_address = mac;
        }
        at += length;
    }
    return m;
}

NdFrame neighbour_solicitation(const wire::MacAddress& our_mac, const wire::Gid& our_gid, const wire::Gid& target) {
    // RFC 4291 2.7.1: the solicited-node group ff02::1:ffXX:XXXX; RFC 2464 7: its MAC address 33:33 + last four bytes.
    wire::Gid group;
    group.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, target.raw[13], target.raw[14], target.raw[15]};
    const wire::MacAddress mac{0x33, 0x33, 0xff, target.raw[13], target.raw[14], target.raw[15]};
    return frame_of(our_mac, mac, our_gid, group, kSolicit, 0, target);
}

NdFrame neighbour_advertisement(const wire::MacAddress& our_mac, const NdMessage& asked) {
    // RFC 4861 7.2.4: to all nodes, and not marked solicited, when the asker has no address yet.
    if (asked.source.is_zero()) {
        wire::Gid all;
        all.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        return frame_of(our_mac, {0x33, 0x33, 0, 0, 0, 1}, asked.target, all, kAdvertise, kFlagOverride, asked.target);
    }
    return frame_of(our_mac, asked.link_address.value_or(asked.source_mac), asked.target, asked.source, kAdvertise,
                    kFlagSolicited | kFlagOverride, asked.target);
}

}  // namespace rocemu::net
