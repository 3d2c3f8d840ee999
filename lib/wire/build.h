// SPDX-License-Identifier: BSD-3-Clause
// HeaderTemplate: writes all headers of outgoing packets. The envelope (Ethernet, IP or GRH, UDP) of a QP or address
// handle is prepared once; per packet only lengths, IP identification and checksum, BTH and extension headers change.
// Read IBTA volume 1, 9.2, annexes A16 and A17.3.1. Payload, pad bytes and ICRC are the caller's (see icrc.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/bth.h"
#include "wire/eth.h"
#include "wire/gid.h"
#include "wire/ipv6.h"
#include "wire/mac.h"
#include "wire/network_type.h"
#include "wire/opcode.h"
#include "wire/udp.h"

namespace rocemu::wire {

inline constexpr size_t kMaxEnvelope = EthHeader::kSize + VlanTag::kSize + Ipv6Header::kSize + UdpHeader::kSize;
// Room that build() may write to in front of the payload, whatever the opcode.
inline constexpr size_t kMaxHeaders = kMaxEnvelope + Bth::kSize + kMaxExtSize;
inline constexpr size_t kIcrcSize = 4;
// Everything that can surround a payload: headers, up to three pad bytes, ICRC.
inline constexpr size_t kMaxOverhead = kMaxHeaders + 3 + kIcrcSize;

// IBTA 9.2.1: pad bytes bring the payload to a multiple of four; they are sent and covered by the ICRC.
[[nodiscard]] constexpr uint8_t pad_count_of(size_t payload_length) {
    return static_cast<uint8_t>(-payload_length & 3);
}

// Where packets of a QP or address handle come from and go to.
struct AddressVector {
    MacAddress src_mac{};
    MacAddress dst_mac{};
    bool has_vlan = false;
    uint16_t vlan_tci = 0;  // PCP (3 bits), DEI, VID (12 bits)
    NetworkType network = NetworkType::V2Ipv4;
    Gid src_gid{};  // IPv4-mapped for V2Ipv4
    Gid dst_gid{};
    uint8_t traffic_class = 0;     // DSCP << 2; the two low bits are ignored: ECN belongs to the NIC
    uint8_t ecn = 0;               // 0 not-ECT; 1 or 2 when congestion management is on
    uint8_t hop_limit = 64;        // written as it is; choosing a default is the caller's
    uint32_t flow_label = 0;       // 20 bits; IPv6 and GRH
    uint16_t udp_source_port = 0;  // see udp_source_port(); unused by v1

    // VID, or kNoVlan.
    [[nodiscard]] uint16_t vlan() const { return has_vlan ? VlanTag{vlan_tci, 0}.vid() : kNoVlan; }

    bool operator==(const AddressVector&) const = default;
};

// The extension headers of a packet; only those that its opcode has are looked at.
struct ExtHeaders {
    XrcEth xrceth{};
    Deth deth{};
    Feth feth{};
    Reth reth{};
    AtomicEth atomic_eth{};
    Aeth aeth{};
    AtomicAckEth atomic_ack_eth{};
    ImmDt immdt{};
    Ieth ieth{};
};

class HeaderTemplate {
  public:
    HeaderTemplate() = default;
    explicit HeaderTemplate(const AddressVector& address);

    // Bytes of Ethernet, IP or GRH, and UDP.
    [[nodiscard]] size_t envelope_size() const { return envelope_size_; }
    // Offset of layer 3 in the frame: where the ICRC begins.
    [[nodiscard]] size_t l3_offset() const { return l3_offset_; }
    [[nodiscard]] NetworkType network() const { return network_; }
    // Bytes that build() will write for this opcode.
    [[nodiscard]] size_t header_size(uint8_t opcode) const {
        return envelope_size_ + Bth::kSize + opcode_info(opcode).ext_size;
    }

    // Writes header_size(bth.opcode) bytes (at most kMaxHeaders) to `out` and returns their number. `bth.pad_count` is
    // ignored: it follows from `payload_length` (bytes without pad). `ip_id` is the IPv4 identification: it is covered
    // by the ICRC, and it is the caller's to vary. Precondition: opcode_info(bth.opcode).valid().
    size_t build(std::byte* out, const Bth& bth, const ExtHeaders& ext, size_t payload_length, uint16_t ip_id) const;

    // Where one of the two MAC addresses is `before`, it becomes `now`.
    void replace_mac(const MacAddress& before, const MacAddress& now);
    void set_destination(const MacAddress& mac);

  private:
    std::array<std::byte, kMaxEnvelope> envelope_{};  // lengths, identification and checksum left 0
    uint32_t checksum_base_ = 0;                      // sum of the fixed IPv4 words
    uint8_t envelope_size_ = 0;
    uint8_t l3_offset_ = 0;
    NetworkType network_ = NetworkType::V2Ipv4;
};

}  // namespace rocemu::wire
