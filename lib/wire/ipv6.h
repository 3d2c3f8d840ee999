// SPDX-License-Identifier: BSD-3-Clause
// Ipv6Header: the fixed 40-byte IPv6 header. Read RFC 8200 3, IBTA annex A17.3.1.2.
// RoCE v2 packets carry UDP directly behind it; extension headers are not RoCE.
#pragma once

#include "base/bytes.h"
#include "wire/gid.h"

namespace rocemu::wire {

struct Ipv6Header {
    static constexpr size_t kSize = 40;

    uint8_t version = 6;
    uint8_t traffic_class = 0;    // DSCP << 2 | ECN
    uint32_t flow_label = 0;      // 20 bits
    uint16_t payload_length = 0;  // everything behind this header
    uint8_t next_header = 17;     // UDP
    uint8_t hop_limit = 64;
    Gid src;
    Gid dst;

    // In place, for the same reason as Bth::read.
    void read(const std::byte* p) {
        const auto word = load_be<uint32_t>(p);
        version = static_cast<uint8_t>(word >> 28);
        traffic_class = static_cast<uint8_t>(word >> 20);
        flow_label = word & 0xfffff;
        payload_length = load_be<uint16_t>(p + 4);
        next_header = load_be<uint8_t>(p + 6);
        hop_limit = load_be<uint8_t>(p + 7);
        std::memcpy(src.raw.data(), p + 8, src.raw.size());
        std::memcpy(dst.raw.data(), p + 24, dst.raw.size());
    }
    [[nodiscard]] static Ipv6Header parse(const std::byte* p) {
        Ipv6Header h;
        h.read(p);
        return h;
    }
    void write(std::byte* p) const {
        store_be<uint32_t>(p, uint32_t{version} << 28 | uint32_t{traffic_class} << 20 | (flow_label & 0xfffff));
        store_be<uint16_t>(p + 4, payload_length);
        store_be<uint8_t>(p + 6, next_header);
        store_be<uint8_t>(p + 7, hop_limit);
        src.write(p + 8);
        dst.write(p + 24);
    }
};

}  // namespace rocemu::wire
