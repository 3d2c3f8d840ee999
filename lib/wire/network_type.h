// SPDX-License-Identifier: BSD-3-Clause
// NetworkType: the three ways a RoCE packet travels over Ethernet. Read IBTA annexes A16 (v1) and A17 (v2).
// The type decides the layer-3 header, the ICRC mask and which GID table entry a packet belongs to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rocemu::wire {

enum class NetworkType : uint8_t {
    RoceV1,  // EtherType 0x8915, GRH, no UDP
    V2Ipv4,  // IPv4, UDP destination port 4791
    V2Ipv6,  // IPv6, UDP destination port 4791
};

// Bytes from the first byte of layer 3 to the first byte of the BTH.
[[nodiscard]] constexpr size_t bth_offset(NetworkType network) {
    return network == NetworkType::V2Ipv4 ? 20 + 8 : network == NetworkType::V2Ipv6 ? 40 + 8 : 40;
}

[[nodiscard]] constexpr const char* name_of(NetworkType network) {
    return network == NetworkType::RoceV1 ? "RoCEv1" : network == NetworkType::V2Ipv4 ? "RoCEv2/IPv4" : "RoCEv2/IPv6";
}

}  // namespace rocemu::wire
