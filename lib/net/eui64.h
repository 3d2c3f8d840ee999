// SPDX-License-Identifier: BSD-3-Clause
// EUI-64: from a MAC address to the node GUID and the link-local GID, and back.
// Read RFC 4291 appendix A and IBTA annex A17.3.2. A link-local GID of another vendor's NIC usually tells its MAC
// address; one made by a kernel with random identifiers does not, and needs neighbour discovery.
#pragma once

#include <optional>

#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::net {

// Host order, the universal/local bit inverted: what ibv_devinfo prints as node_guid.
[[nodiscard]] constexpr uint64_t guid_of(const wire::MacAddress& mac) {
    const uint8_t bytes[8] = {static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    uint64_t guid = 0;
    for (uint8_t b : bytes) guid = guid << 8 | b;
    return guid;
}

[[nodiscard]] constexpr wire::Gid link_local_gid(const wire::MacAddress& mac) {
    wire::Gid gid;
    gid.raw[0] = 0xfe;
    gid.raw[1] = 0x80;
    const uint64_t guid = guid_of(mac);
    for (int i = 0; i < 8; ++i) gid.raw[8 + i] = static_cast<uint8_t>(guid >> (56 - 8 * i));
    return gid;
}

// The MAC address a link-local GID was made from, if it has the ff:fe mark of an EUI-64.
[[nodiscard]] constexpr std::optional<wire::MacAddress> mac_of_link_local(const wire::Gid& gid) {
    if (!gid.is_link_local() || gid.raw[11] != 0xff || gid.raw[12] != 0xfe) return std::nullopt;
    return wire::MacAddress{
        static_cast<uint8_t>(gid.raw[8] ^ 2), gid.raw[9], gid.raw[10], gid.raw[13], gid.raw[14], gid.raw[15]};
}

}  // namespace rocemu::net
