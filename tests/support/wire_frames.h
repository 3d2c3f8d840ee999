// SPDX-License-Identifier: BSD-3-Clause
// Whole frames for tests: from hexadecimal text, from fields (headers, payload, pad, ICRC), and from a parsed packet
// back to bytes. The last is how recorded frames are compared with what our builder makes.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "support/pcap.h"
#include "wire/build.h"
#include "wire/icrc.h"
#include "wire/packet_view.h"

namespace rocemu::test {

// Spaces are ignored.
inline Frame from_hex(std::string_view text) {
    Frame bytes;
    unsigned high = 0;
    bool half = false;
    for (const char c : text) {
        if (c == ' ') continue;
        const auto digit = std::string_view("0123456789abcdef").find(c);
        if (digit == std::string_view::npos) throw std::invalid_argument("not hexadecimal");
        if (half) bytes.push_back(static_cast<std::byte>(high << 4 | digit));
        high = static_cast<unsigned>(digit);
        half = !half;
    }
    return bytes;
}

// A complete frame: what a NIC would send for these fields.
inline Frame make_frame(const wire::AddressVector& address, const wire::Bth& bth, const wire::ExtHeaders& ext,
                        std::span<const std::byte> payload, uint16_t ip_id = 1) {
    const wire::HeaderTemplate headers(address);
    Frame frame(wire::kMaxOverhead + payload.size());
    const size_t header_size = headers.build(frame.data(), bth, ext, payload.size(), ip_id);
    const std::span<const std::byte> l3(frame.data() + headers.l3_offset(), header_size - headers.l3_offset());
    uint32_t crc = wire::icrc_header_part(l3, headers.network());
    crc = wire::crc32_copy(crc, frame.data() + header_size, payload.data(), payload.size());
    size_t end = header_size + payload.size();
    const size_t pad = wire::pad_count_of(payload.size());
    std::fill_n(frame.begin() + static_cast<ptrdiff_t>(end), pad, std::byte{0});
    crc = wire::crc32_update(crc, frame.data() + end, pad);
    end += pad;
    wire::store_icrc(frame.data() + end, wire::icrc_finish(crc));
    frame.resize(end + wire::kIcrcSize);
    return frame;
}

inline wire::AddressVector address_of(const wire::PacketView& p) {
    return {.src_mac = p.src_mac,
            .dst_mac = p.dst_mac,
            .has_vlan = p.has_vlan,
            .vlan_tci = p.vlan_tci,
            .network = p.network,
            .src_gid = p.src_gid,
            .dst_gid = p.dst_gid,
            .traffic_class = p.traffic_class,
            .ecn = p.ecn(),
            .hop_limit = p.hop_limit,
            .flow_label = p.flow_label,
            .udp_source_port = p.udp_source_port};
}

inline wire::ExtHeaders extensions_of(const wire::PacketView& p) {
    wire::ExtHeaders e;
    if (p.op->has(wire::ext::kXrcEth)) e.xrceth = p.xrceth();
    if (p.op->has(wire::ext::kDeth)) e.deth = p.deth();
    if (p.op->has(wire::ext::kFeth)) e.feth = p.feth();
    if (p.op->has(wire::ext::kReth)) e.reth = p.reth();
    if (p.op->has(wire::ext::kAtomicEth)) e.atomic_eth = p.atomic_eth();
    if (p.op->has(wire::ext::kAeth)) e.aeth = p.aeth();
    if (p.op->has(wire::ext::kAtomicAckEth)) e.atomic_ack_eth = p.atomic_ack_eth();
    if (p.op->has(wire::ext::kImmDt)) e.immdt = p.immdt();
    if (p.op->has(wire::ext::kIeth)) e.ieth = p.ieth();
    return e;
}

// The same packet made anew from what was parsed.
inline Frame rebuild(const wire::PacketView& p) {
    return make_frame(address_of(p), p.bth, extensions_of(p), p.payload, p.ip_id);
}

}  // namespace rocemu::test
