// SPDX-License-Identifier: BSD-3-Clause
// PacketView: what parse_frame found in one RoCE frame. It owns nothing: the spans point into the frame and live as
// long as the frame does. Envelope and BTH are decoded, extension headers are decoded when asked for.
#pragma once

#include <bit>
#include <cassert>
#include <span>

#include "wire/bth.h"
#include "wire/eth.h"
#include "wire/gid.h"
#include "wire/mac.h"
#include "wire/network_type.h"
#include "wire/opcode.h"

namespace rocemu::wire {

struct PacketView {
    NetworkType network = NetworkType::V2Ipv4;
    MacAddress dst_mac{};
    MacAddress src_mac{};
    bool has_vlan = false;
    uint16_t vlan_tci = 0;  // PCP (3 bits), DEI, VID (12 bits)
    Gid src_gid;            // IPv4 addresses as ::ffff:a.b.c.d
    Gid dst_gid;
    uint8_t traffic_class = 0;     // DSCP << 2 | ECN
    uint8_t hop_limit = 0;         // IPv4: TTL
    uint32_t flow_label = 0;       // 0 on IPv4
    uint16_t ip_id = 0;            // IPv4 identification, else 0
    uint16_t udp_source_port = 0;  // 0 on RoCE v1
    Bth bth;
    const OpcodeInfo* op = nullptr;      // never null after a successful parse
    const std::byte* ext = nullptr;      // first byte behind the BTH
    std::span<const std::byte> payload;  // without pad
    std::span<const std::byte> l3;       // first byte of layer 3 up to the ICRC: what the ICRC is computed over
    uint32_t icrc = 0;                   // as stored: the four bytes read little-endian

    [[nodiscard]] uint8_t dscp() const { return traffic_class >> 2; }
    [[nodiscard]] uint8_t ecn() const { return traffic_class & 3; }
    [[nodiscard]] uint8_t pad_count() const { return bth.pad_count; }
    [[nodiscard]] Opcode opcode() const { return static_cast<Opcode>(bth.opcode); }
    // VID, or kNoVlan.
    [[nodiscard]] uint16_t vlan() const {
        const uint16_t vid = has_vlan ? VlanTag{vlan_tci, 0}.vid() : uint16_t{0};
        return vid == 0 ? kNoVlan : vid;
    }
    [[nodiscard]] bool is_multicast() const { return dst_gid.is_multicast(); }

    // Headers from layer 3 to the payload: with icrc_header_part the start of a verification fused with a copy.
    [[nodiscard]] std::span<const std::byte> headers() const {
        return l3.first(bth_offset(network) + Bth::kSize + op->ext_size);
    }
    // The 40 bytes a UD receive sees in front of its payload are made from this: IP header or GRH as received.
    [[nodiscard]] std::span<const std::byte> l3_header() const {
        return l3.first(network == NetworkType::V2Ipv4 ? 20 : 40);
    }

    // Precondition of each: op->has(its bit).
    [[nodiscard]] XrcEth xrceth() const { return decode<XrcEth>(ext::kXrcEth); }
    [[nodiscard]] Deth deth() const { return decode<Deth>(ext::kDeth); }
    [[nodiscard]] Feth feth() const { return decode<Feth>(ext::kFeth); }
    [[nodiscard]] Reth reth() const { return decode<Reth>(ext::kReth); }
    [[nodiscard]] AtomicEth atomic_eth() const { return decode<AtomicEth>(ext::kAtomicEth); }
    [[nodiscard]] Aeth aeth() const { return decode<Aeth>(ext::kAeth); }
    [[nodiscard]] AtomicAckEth atomic_ack_eth() const { return decode<AtomicAckEth>(ext::kAtomicAckEth); }
    [[nodiscard]] ImmDt immdt() const { return decode<ImmDt>(ext::kImmDt); }
    [[nodiscard]] Ieth ieth() const { return decode<Ieth>(ext::kIeth); }

  private:
    template <typename Header>
    [[nodiscard]] Header decode(uint16_t bit) const {
        assert(op->has(bit));
        return Header::parse(ext + op->ext_offset[static_cast<size_t>(std::countr_zero(bit))]);
    }
};

}  // namespace rocemu::wire
