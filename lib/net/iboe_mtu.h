// SPDX-License-Identifier: BSD-3-Clause
// The path MTU a port can carry: from bytes of the interface's MTU to enum ibv_mtu.
// Read Linux's iboe_get_mtu: 96 bytes are kept for GRH or IPv6 + UDP, BTH, extension headers and ICRC, whatever the
// GID type, so the answer does not depend on who will talk to whom.
#pragma once

#include <cstdint>

namespace rocemu::net {

inline constexpr uint32_t kRoceOverhead = 96;

// enum ibv_mtu (1 = 256 … 5 = 4096); 0 if not even 256 bytes fit.
[[nodiscard]] constexpr uint8_t iboe_mtu(uint32_t interface_mtu) {
    uint8_t code = 0;
    for (uint8_t c = 1; c <= 5; ++c)
        if ((128u << c) + kRoceOverhead <= interface_mtu) code = c;
    return code;
}

[[nodiscard]] constexpr uint32_t mtu_bytes(uint8_t code) {
    return code >= 1 && code <= 5 ? 128u << code : 0;
}

}  // namespace rocemu::net
