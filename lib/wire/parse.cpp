// SPDX-License-Identifier: BSD-3-Clause
// parse_frame: see parse.h. Layer by layer; each function narrows `rest` and returns as soon as the frame is somebody
// else's or malformed. Read IBTA annex A17.3 for what a RoCE v2 IP header may hold, volume 1, 9.6 for the transport.
#include "wire/parse.h"

#include <bit>
#include <cstring>

#include "wire/build.h"
#include "wire/eth.h"
#include "wire/flow_parser.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/ipv4.h"
#include "wire/udp.h"

namespace rocemu::wire {
namespace {

using Bytes = std::span<const std::byte>;

constexpr ParseResult kNotRoce{ParseResult::Kind::NotRoce, DropReason::None};
constexpr ParseResult drop(DropReason reason) {
    return {ParseResult::Kind::Drop, reason};
}

// `packet` is BTH to ICRC inclusive, exactly as long as layer 3 said.
ParseResult parse_transport(Bytes packet, PacketView& out) {
    if (packet.size() < Bth::kSize + kIcrcSize) return drop(DropReason::PacketTooShort);
    // IBTA 9.2.1: pad bytes make every packet a multiple of four bytes.
    if (packet.size() % 4 != 0) return drop(DropReason::PacketLengthAlignment);

    out.bth.read(packet.data());
    out.op = &opcode_info(out.bth.opcode);
    // IBTA 9.6: packets that fail these checks are dropped without an answer, in any transport.
    if (out.bth.tver != 0) return drop(DropReason::TransportVersion);
    if (!out.op->valid()) return drop(DropReason::UnknownOpcode);
    // IBTA 10.9.3: the low 15 bits must agree and not both sides may be limited members; we are a full one.
    if ((out.bth.pkey & 0x7fff) != (kDefaultPkey & 0x7fff)) return drop(DropReason::PkeyMismatch);
    // A17: RoCE has no subnet management, so no QP0.
    if (out.bth.dest_qp == 0) return drop(DropReason::DestQpZero);

    const Bytes body = packet.subspan(Bth::kSize, packet.size() - Bth::kSize - kIcrcSize);
    if (body.size() < out.op->ext_size) return drop(DropReason::ExtHeaderTooLong);
    const Bytes padded = body.subspan(out.op->ext_size);
    if (padded.size() < out.bth.pad_count) return drop(DropReason::PadTooLong);
    if (!out.op->has_payload && !padded.empty()) return drop(DropReason::UnexpectedPayload);

    out.ext = body.data();
    out.payload = padded.first(padded.size() - out.bth.pad_count);
    out.icrc = load_icrc(packet.data() + packet.size() - kIcrcSize);
    return {};
}

// `datagram` is the IP payload: the UDP header (known to be there, with our port) and what it carries.
ParseResult parse_udp(Bytes datagram, PacketView& out) {
    const auto udp = UdpHeader::parse(datagram.data());
    // A datagram fills its IP packet: otherwise it is not clear where the ICRC is.
    if (udp.length != datagram.size()) return drop(DropReason::UdpLength);
    out.udp_source_port = udp.src_port;
    return parse_transport(datagram.subspan(UdpHeader::kSize), out);
}

[[nodiscard]] bool is_roce_port(Bytes rest, size_t udp_offset) {
    return load_be<uint16_t>(rest.data() + udp_offset + 2) == kRoceUdpPort;
}

ParseResult parse_ipv4(Bytes rest, PacketView& out) {
    if (rest.size() < Ipv4Header::kSize) return drop(DropReason::FrameTooShort);
    const auto ip = Ipv4Header::parse(rest.data());
    if (ip.version != 4) return drop(DropReason::IpVersion);
    if (ip.protocol != kIpProtocolUdp) return kNotRoce;
    // A later fragment has no UDP header to recognise it by.
    if (ip.flags_offset & Ipv4Header::kFragmentOffsetMask) return drop(DropReason::IpFragment);
    if (ip.ihl < 5) return drop(DropReason::IpOptions);
    const size_t udp_offset = size_t{ip.ihl} * 4;
    if (rest.size() < udp_offset + UdpHeader::kSize) return drop(DropReason::FrameTooShort);
    if (!is_roce_port(rest, udp_offset)) return kNotRoce;
    // A17.3.1.1: no options, not fragmented.
    if (ip.ihl != 5) return drop(DropReason::IpOptions);
    if (ip.is_fragment()) return drop(DropReason::IpFragment);
    if (Ipv4Header::compute_checksum(rest.data()) != 0) return drop(DropReason::IpChecksum);
    if (ip.total_length > rest.size() || ip.total_length < Ipv4Header::kSize + UdpHeader::kSize)
        return drop(DropReason::IpLength);

    out.network = NetworkType::V2Ipv4;
    out.src_gid = Gid::from_ipv4(ip.src);
    out.dst_gid = Gid::from_ipv4(ip.dst);
    out.traffic_class = ip.tos;
    out.hop_limit = ip.ttl;
    out.flow_label = 0;
    out.ip_id = ip.id;
    const Bytes packet = rest.first(ip.total_length);
    out.l3 = packet.first(packet.size() - kIcrcSize);
    return parse_udp(packet.subspan(Ipv4Header::kSize), out);
}

void take_ipv6(const Ipv6Header& ip, PacketView& out) {
    out.src_gid = ip.src;
    out.dst_gid = ip.dst;
    out.traffic_class = ip.traffic_class;
    out.hop_limit = ip.hop_limit;
    out.flow_label = ip.flow_label;
    out.ip_id = 0;
}

ParseResult parse_ipv6(Bytes rest, PacketView& out) {
    if (rest.size() < Ipv6Header::kSize) return drop(DropReason::FrameTooShort);
    Ipv6Header ip;
    ip.read(rest.data());
    if (ip.version != 6) return drop(DropReason::IpVersion);
    if (ip.next_header != kIpProtocolUdp) return kNotRoce;
    if (rest.size() < Ipv6Header::kSize + UdpHeader::kSize) return drop(DropReason::FrameTooShort);
    if (!is_roce_port(rest, Ipv6Header::kSize)) return kNotRoce;
    const size_t length = Ipv6Header::kSize + ip.payload_length;
    if (length > rest.size() || ip.payload_length < UdpHeader::kSize) return drop(DropReason::IpLength);

    out.network = NetworkType::V2Ipv6;
    take_ipv6(ip, out);
    out.l3 = rest.first(length - kIcrcSize);
    return parse_udp(rest.subspan(Ipv6Header::kSize, ip.payload_length), out);
}

ParseResult parse_grh(Bytes rest, PacketView& out) {
    if (rest.size() < Grh::kSize) return drop(DropReason::FrameTooShort);
    Grh grh;
    grh.read(rest.data());
    if (grh.version != 6) return drop(DropReason::IpVersion);  // IBTA 8.3.1: IPVer is 6
    if (grh.next_header != Grh::kNextHeaderBth) return drop(DropReason::GrhNextHeader);
    const size_t length = Grh::kSize + grh.payload_length;
    if (length > rest.size()) return drop(DropReason::IpLength);

    out.network = NetworkType::RoceV1;
    take_ipv6(grh, out);
    out.udp_source_port = 0;
    out.l3 = rest.first(length - kIcrcSize);
    return parse_transport(rest.subspan(Grh::kSize, grh.payload_length), out);
}

// Where the BTH of an untagged IPv4 frame begins.
constexpr size_t kPlainBth = EthHeader::kSize + Ipv4Header::kSize + UdpHeader::kSize;
constexpr size_t kFlowWords = 7;

// The bits that all frames of a flow have in common: all, except for lengths, identification and checksums, and what
// parse_transport looks at. (A P_Key it looks at too; the destination QP is who else would have to be found.)
constexpr std::array<uint64_t, kFlowWords> make_flow_mask() {
    std::array<std::byte, kFlowWords * 8> bytes{};
    constexpr size_t kIp = EthHeader::kSize, kUdp = kIp + Ipv4Header::kSize;
    for (size_t i = 0; i < kPlainBth + 8; ++i) bytes[i] = std::byte{0xff};
    for (const size_t i : {kIp + 2, kIp + 4, kIp + 10, kUdp + 4, kUdp + 6, kPlainBth}) bytes[i] = bytes[i + 1] = std::byte{0};
    bytes[kPlainBth + 4] = std::byte{0};  // FECN, BECN, reserved
    return std::bit_cast<std::array<uint64_t, kFlowWords>>(bytes);
}
constexpr auto kFlowMask = make_flow_mask();
static_assert(kPlainBth + 8 <= sizeof kFlowMask && kPlainBth + Bth::kSize + kIcrcSize >= sizeof kFlowMask);

}  // namespace

ParseResult parse_frame(std::span<const std::byte> frame, PacketView& out) {
    if (frame.size() < EthHeader::kSize) return drop(DropReason::FrameTooShort);
    // Straight to where they belong; through an EthHeader g++ makes a detour that stalls (as in Bth::read).
    std::memcpy(out.dst_mac.data(), frame.data(), out.dst_mac.size());
    std::memcpy(out.src_mac.data(), frame.data() + 6, out.src_mac.size());
    auto type = load_be<uint16_t>(frame.data() + 12);
    out.has_vlan = type == kEtherTypeVlan;
    out.vlan_tci = 0;
    Bytes rest = frame.subspan(EthHeader::kSize);
    if (out.has_vlan) {
        if (rest.size() < VlanTag::kSize) return drop(DropReason::FrameTooShort);
        const auto tag = VlanTag::parse(rest.data());
        out.vlan_tci = tag.tci;
        type = tag.ether_type;
        rest = rest.subspan(VlanTag::kSize);
    }
    switch (type) {
        case kEtherTypeIpv4:
            return parse_ipv4(rest, out);
        case kEtherTypeIpv6:
            return parse_ipv6(rest, out);
        case kEtherTypeRoceV1:
            return parse_grh(rest, out);
        default:
            return kNotRoce;
    }
}

void FlowParser::remember(std::span<const std::byte> frame, const PacketView& view) {
    known_ = view.network == NetworkType::V2Ipv4 && !view.has_vlan;
    if (!known_) return;
    std::memcpy(words_.data(), frame.data(), sizeof words_);
    for (size_t i = 0; i < kWords; ++i) words_[i] &= kFlowMask[i];
    checksum_base_ = 0;
    for (const size_t at : {0, 6, 8, 12, 14, 16, 18})
        checksum_base_ += load_be<uint16_t>(frame.data() + EthHeader::kSize + at);
}

bool FlowParser::parse(std::span<const std::byte> frame, PacketView& view) const {
    if (!known_ || frame.size() < kPlainBth + Bth::kSize + kIcrcSize) return false;
    uint64_t other = 0;
#pragma GCC unroll 7
    for (size_t i = 0; i < kWords; ++i) {
        uint64_t word;
        std::memcpy(&word, frame.data() + i * sizeof word, sizeof word);
        other |= (word & kFlowMask[i]) ^ words_[i];
    }
    if (other != 0) return false;
    const std::byte* const ip = frame.data() + EthHeader::kSize;
    const auto length = load_be<uint16_t>(ip + 2);
    const auto id = load_be<uint16_t>(ip + 4);
    const auto udp_length = load_be<uint16_t>(ip + Ipv4Header::kSize + 4);
    if (Ipv4Header::fold_checksum(checksum_base_ + length + id + load_be<uint16_t>(ip + 10)) != 0) return false;
    if (length > frame.size() - EthHeader::kSize || udp_length + Ipv4Header::kSize != length || udp_length < UdpHeader::kSize)
        return false;
    view.ip_id = id;
    view.l3 = {ip, length - kIcrcSize};
    return parse_transport({frame.data() + kPlainBth, udp_length - UdpHeader::kSize}, view).ok();
}

}  // namespace rocemu::wire
