// SPDX-License-Identifier: BSD-3-Clause
// HeaderTemplate: see build.h. Lengths follow IBTA annex A17.3.1 (UDP length includes the ICRC) and volume 1, 8.3.1
// (GRH PayLen from behind the GRH to the end of the ICRC).
#include "wire/build.h"

#include <cassert>
#include <cstring>

#include "wire/grh.h"
#include "wire/ipv4.h"

namespace rocemu::wire {
namespace {

std::byte* write_eth(std::byte* p, const AddressVector& a, uint16_t ether_type) {
    EthHeader{a.dst_mac, a.src_mac, a.has_vlan ? kEtherTypeVlan : ether_type}.write(p);
    p += EthHeader::kSize;
    if (a.has_vlan) {
        VlanTag{a.vlan_tci, ether_type}.write(p);
        p += VlanTag::kSize;
    }
    return p;
}

// A17: the two low bits of the traffic class are ECN and belong to the NIC, not to the address vector.
uint8_t tos_of(const AddressVector& a) {
    return static_cast<uint8_t>((a.traffic_class & 0xfc) | (a.ecn & 3));
}

std::byte* write_ipv4(std::byte* p, const AddressVector& a) {
    Ipv4Header ip;
    ip.tos = tos_of(a);
    ip.ttl = a.hop_limit;
    ip.src = a.src_gid.ipv4();
    ip.dst = a.dst_gid.ipv4();
    ip.write(p);
    return p + Ipv4Header::kSize;
}

std::byte* write_ipv6(std::byte* p, const AddressVector& a, uint8_t next_header) {
    Ipv6Header ip;
    ip.traffic_class = tos_of(a);
    ip.flow_label = a.flow_label;
    ip.next_header = next_header;
    ip.hop_limit = a.hop_limit;
    ip.src = a.src_gid;
    ip.dst = a.dst_gid;
    ip.write(p);
    return p + Ipv6Header::kSize;
}

template <typename Header>
std::byte* write_one(std::byte* p, const OpcodeInfo& op, uint16_t bit, const Header& header) {
    if (!op.has(bit)) return p;
    header.write(p);
    return p + Header::kSize;
}

// In the order of the bits, which is the order on the wire.
std::byte* write_extensions(std::byte* p, const OpcodeInfo& op, const ExtHeaders& e) {
    switch (op.extensions) {  // what most packets have
        case 0: return p;
        case ext::kReth: e.reth.write(p); return p + Reth::kSize;
        case ext::kAeth: e.aeth.write(p); return p + Aeth::kSize;
        default: break;
    }
    p = write_one(p, op, ext::kXrcEth, e.xrceth);
    p = write_one(p, op, ext::kDeth, e.deth);
    p = write_one(p, op, ext::kFeth, e.feth);
    p = write_one(p, op, ext::kReth, e.reth);
    p = write_one(p, op, ext::kAtomicEth, e.atomic_eth);
    p = write_one(p, op, ext::kAeth, e.aeth);
    p = write_one(p, op, ext::kAtomicAckEth, e.atomic_ack_eth);
    p = write_one(p, op, ext::kImmDt, e.immdt);
    return write_one(p, op, ext::kIeth, e.ieth);
}

}  // namespace

HeaderTemplate::HeaderTemplate(const AddressVector& a) : network_(a.network) {
    std::byte* const begin = envelope_.data();
    std::byte* l3 = nullptr;
    std::byte* end = nullptr;
    switch (a.network) {
        case NetworkType::RoceV1:
            l3 = write_eth(begin, a, kEtherTypeRoceV1);
            end = write_ipv6(l3, a, Grh::kNextHeaderBth);
            break;
        case NetworkType::V2Ipv4:
            l3 = write_eth(begin, a, kEtherTypeIpv4);
            end = write_ipv4(l3, a);
            for (size_t i = 0; i < Ipv4Header::kSize; i += 2) checksum_base_ += load_be<uint16_t>(l3 + i);
            break;
        case NetworkType::V2Ipv6:
            l3 = write_eth(begin, a, kEtherTypeIpv6);
            end = write_ipv6(l3, a, kIpProtocolUdp);
            break;
    }
    if (a.network != NetworkType::RoceV1) {
        UdpHeader{a.udp_source_port, kRoceUdpPort, 0, 0}.write(end);
        end += UdpHeader::kSize;
    }
    l3_offset_ = static_cast<uint8_t>(l3 - begin);
    envelope_size_ = static_cast<uint8_t>(end - begin);
}

void HeaderTemplate::replace_mac(const MacAddress& before, const MacAddress& now) {
    for (std::byte* p : {envelope_.data(), envelope_.data() + before.size()})
        if (std::memcmp(p, before.data(), before.size()) == 0) std::memcpy(p, now.data(), now.size());
}

void HeaderTemplate::set_destination(const MacAddress& mac) {
    std::memcpy(envelope_.data(), mac.data(), mac.size());
}

size_t HeaderTemplate::build(std::byte* out, const Bth& bth, const ExtHeaders& extensions, size_t payload_length,
                             uint16_t ip_id) const {
    const OpcodeInfo& op = opcode_info(bth.opcode);
    assert(op.valid());
    const uint8_t pad = pad_count_of(payload_length);
    const auto transport_size = static_cast<uint16_t>(Bth::kSize + op.ext_size + payload_length + pad + kIcrcSize);

    std::memcpy(out, envelope_.data(), kMaxEnvelope);  // a fixed size is cheaper; what is too much is written over
    std::byte* const l3 = out + l3_offset_;
    switch (network_) {
        case NetworkType::RoceV1:
            store_be<uint16_t>(l3 + 4, transport_size);
            break;
        case NetworkType::V2Ipv4: {
            const auto udp_length = static_cast<uint16_t>(transport_size + UdpHeader::kSize);
            const auto total_length = static_cast<uint16_t>(udp_length + Ipv4Header::kSize);
            store_be<uint16_t>(l3 + 2, total_length);
            store_be<uint16_t>(l3 + 4, ip_id);
            store_be<uint16_t>(l3 + 10, Ipv4Header::fold_checksum(checksum_base_ + total_length + ip_id));
            store_be<uint16_t>(l3 + Ipv4Header::kSize + 4, udp_length);
            break;
        }
        case NetworkType::V2Ipv6: {
            const auto udp_length = static_cast<uint16_t>(transport_size + UdpHeader::kSize);
            store_be<uint16_t>(l3 + 4, udp_length);
            store_be<uint16_t>(l3 + Ipv6Header::kSize + 4, udp_length);
            break;
        }
    }
    std::byte* p = out + envelope_size_;
    bth.write(p, pad);
    return static_cast<size_t>(write_extensions(p + Bth::kSize, op, extensions) - out);
}

}  // namespace rocemu::wire
