// SPDX-License-Identifier: BSD-3-Clause
// EthHeader: Ethernet II, and VlanTag: the 802.1Q tag that may follow the source address.
// Read IEEE 802.3 clause 3 and IEEE 802.1Q 9.6. A tagged frame carries kEtherTypeVlan in EthHeader::ether_type
// and the type of its payload in the tag.
#pragma once

#include <cstring>

#include "base/bytes.h"
#include "wire/mac.h"

namespace rocemu::wire {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr uint16_t kEtherTypeRoceV1 = 0x8915;

struct EthHeader {
    static constexpr size_t kSize = 14;

    MacAddress dst{};
    MacAddress src{};
    uint16_t ether_type = 0;

    [[nodiscard]] static EthHeader parse(const std::byte* p) {
        EthHeader h;
        std::memcpy(h.dst.data(), p, h.dst.size());
        std::memcpy(h.src.data(), p + 6, h.src.size());
        h.ether_type = load_be<uint16_t>(p + 12);
        return h;
    }
    void write(std::byte* p) const {
        std::memcpy(p, dst.data(), dst.size());
        std::memcpy(p + 6, src.data(), src.size());
        store_be<uint16_t>(p + 12, ether_type);
    }
};

// The frames of no VLAN, untagged or tagged for their priority only (VID 0).
inline constexpr uint16_t kNoVlan = 0xffff;

struct VlanTag {
    static constexpr size_t kSize = 4;  // what it adds to the frame: TCI and the inner EtherType

    uint16_t tci = 0;  // PCP (3 bits), DEI (1), VID (12)
    uint16_t ether_type = 0;

    [[nodiscard]] uint16_t vid() const { return tci & 0x0fff; }
    [[nodiscard]] uint8_t pcp() const { return static_cast<uint8_t>(tci >> 13); }

    // `p` points behind the EtherType 0x8100.
    [[nodiscard]] static VlanTag parse(const std::byte* p) { return {load_be<uint16_t>(p), load_be<uint16_t>(p + 2)}; }
    void write(std::byte* p) const {
        store_be<uint16_t>(p, tci);
        store_be<uint16_t>(p + 2, ether_type);
    }
};

}  // namespace rocemu::wire
