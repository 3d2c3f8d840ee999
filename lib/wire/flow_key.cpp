// SPDX-License-Identifier: BSD-3-Clause
// See flow_key.h.
#include "wire/flow_key.h"

#include "wire/eth.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace rocemu::wire {

namespace {

constexpr size_t kPorts = 4;  // of TCP and UDP: source and destination come first

void take_l4(FlowKey& key, std::span<const std::byte> bytes) {
    if (key.protocol != FlowKey::kTcp && key.protocol != FlowKey::kUdp) return;
    if (bytes.size() < kPorts) return;
    key.l4 = key.protocol;
    std::memcpy(key.src_port, bytes.data(), sizeof key.src_port);
    std::memcpy(key.dst_port, bytes.data() + 2, sizeof key.dst_port);
}

void take_ipv4(FlowKey& key, std::span<const std::byte> bytes) {
    if (bytes.size() < Ipv4Header::kSize) return;
    const auto ip = Ipv4Header::parse(bytes.data());
    const size_t size = size_t{ip.ihl} * 4;
    if (ip.version != 4 || size < Ipv4Header::kSize) return;
    key.l3 = 4;
    key.protocol = ip.protocol;
    key.traffic_class = ip.tos;
    key.hop_limit = ip.ttl;
    key.ip_flags = static_cast<uint8_t>(ip.flags_offset >> 13);
    std::memcpy(key.src_ip, bytes.data() + 12, 4);
    std::memcpy(key.dst_ip, bytes.data() + 16, 4);
    if (bytes.size() >= size && (ip.flags_offset & Ipv4Header::kFragmentOffsetMask) == 0)
        take_l4(key, bytes.subspan(size));
}

void take_ipv6(FlowKey& key, std::span<const std::byte> bytes) {
    if (bytes.size() < Ipv6Header::kSize || load_be<uint8_t>(bytes.data()) >> 4 != 6) return;
    const auto first = load_be<uint32_t>(bytes.data());
    key.l3 = 6;
    key.traffic_class = static_cast<uint8_t>(first >> 20);
    key.protocol = load_be<uint8_t>(bytes.data() + 6);
    key.hop_limit = load_be<uint8_t>(bytes.data() + 7);
    std::byte label[4];
    store_be<uint32_t>(label, first & 0xfffff);
    std::memcpy(key.flow_label, label, sizeof label);
    std::memcpy(key.src_ip, bytes.data() + 8, 16);
    std::memcpy(key.dst_ip, bytes.data() + 24, 16);
    take_l4(key, bytes.subspan(Ipv6Header::kSize));
}

}  // namespace

FlowKey flow_key_of(std::span<const std::byte> frame) {
    FlowKey key;
    if (frame.size() < EthHeader::kSize) return key;
    std::memcpy(key.dst_mac, frame.data(), sizeof key.dst_mac);
    std::memcpy(key.src_mac, frame.data() + 6, sizeof key.src_mac);
    size_t type_at = 12;
    if (load_be<uint16_t>(frame.data() + type_at) == kEtherTypeVlan &&
        frame.size() >= EthHeader::kSize + VlanTag::kSize) {
        std::memcpy(key.vlan_tci, frame.data() + EthHeader::kSize, sizeof key.vlan_tci);
        type_at += VlanTag::kSize;
    }
    std::memcpy(key.ether_type, frame.data() + type_at, sizeof key.ether_type);
    const auto type = load_be<uint16_t>(frame.data() + type_at);
    const auto body = frame.subspan(type_at + 2);
    if (type == kEtherTypeIpv4) take_ipv4(key, body);
    if (type == kEtherTypeIpv6) take_ipv6(key, body);
    return key;
}

}  // namespace rocemu::wire
