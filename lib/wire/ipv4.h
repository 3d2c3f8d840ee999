// SPDX-License-Identifier: BSD-3-Clause
// Ipv4Header: the 20-byte IPv4 header without options, and its checksum.
// Read RFC 791 3.1, RFC 1071 (checksum), IBTA annex A17.3.1.1 (what RoCE v2 allows: IHL 5, DF, offset 0).
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

inline constexpr uint8_t kIpProtocolUdp = 17;

struct Ipv4Header {
    static constexpr size_t kSize = 20;
    static constexpr uint16_t kDontFragment = 0x4000;
    static constexpr uint16_t kMoreFragments = 0x2000;
    static constexpr uint16_t kFragmentOffsetMask = 0x1fff;

    uint8_t version = 4;
    uint8_t ihl = 5;  // header length in 32-bit words
    uint8_t tos = 0;  // DSCP << 2 | ECN
    uint16_t total_length = 0;
    uint16_t id = 0;
    uint16_t flags_offset = kDontFragment;
    uint8_t ttl = 64;
    uint8_t protocol = kIpProtocolUdp;
    uint16_t checksum = 0;
    uint32_t src = 0;
    uint32_t dst = 0;

    [[nodiscard]] bool is_fragment() const { return flags_offset & (kMoreFragments | kFragmentOffsetMask); }

    // RFC 1071: one's complement sum of the ten words, folded; over a received header the result is 0 when right.
    [[nodiscard]] static uint16_t compute_checksum(const std::byte* header) {
        uint64_t sum = 0;
        for (size_t i = 0; i < kSize; i += 4) sum += load_be<uint32_t>(header + i);
        return fold_checksum(static_cast<uint32_t>((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32)));
    }
    [[nodiscard]] static uint16_t fold_checksum(uint32_t sum) {
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        return static_cast<uint16_t>(~sum);
    }

    [[nodiscard]] static Ipv4Header parse(const std::byte* p) {
        Ipv4Header h;
        const auto version_ihl = load_be<uint8_t>(p);
        h.version = version_ihl >> 4;
        h.ihl = version_ihl & 15;
        h.tos = load_be<uint8_t>(p + 1);
        h.total_length = load_be<uint16_t>(p + 2);
        h.id = load_be<uint16_t>(p + 4);
        h.flags_offset = load_be<uint16_t>(p + 6);
        h.ttl = load_be<uint8_t>(p + 8);
        h.protocol = load_be<uint8_t>(p + 9);
        h.checksum = load_be<uint16_t>(p + 10);
        h.src = load_be<uint32_t>(p + 12);
        h.dst = load_be<uint32_t>(p + 16);
        return h;
    }
    // Writes the fields as they are; the caller fills in `checksum` (see compute_checksum).
    void write(std::byte* p) const {
        store_be<uint8_t>(p, static_cast<uint8_t>(version << 4 | ihl));
        store_be<uint8_t>(p + 1, tos);
        store_be<uint16_t>(p + 2, total_length);
        store_be<uint16_t>(p + 4, id);
        store_be<uint16_t>(p + 6, flags_offset);
        store_be<uint8_t>(p + 8, ttl);
        store_be<uint8_t>(p + 9, protocol);
        store_be<uint16_t>(p + 10, checksum);
        store_be<uint32_t>(p + 12, src);
        store_be<uint32_t>(p + 16, dst);
    }
};

}  // namespace rocemu::wire
