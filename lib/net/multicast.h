// SPDX-License-Identifier: BSD-3-Clause
// Multicast: from a group GID to the Ethernet address its frames go to.
// Read RFC 1112 6.4 (IPv4: 23 bits of the group), RFC 2464 7 (IPv6: its last four bytes), IBTA annex A17.5.
#pragma once

#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::net {

// Precondition: group.is_multicast().
[[nodiscard]] constexpr wire::MacAddress multicast_mac(const wire::Gid& group) {
    const auto& r = group.raw;
    if (group.is_ipv4_mapped()) return {0x01, 0x00, 0x5e, static_cast<uint8_t>(r[13] & 0x7f), r[14], r[15]};
    return {0x33, 0x33, r[12], r[13], r[14], r[15]};
}

}  // namespace rocemu::net
