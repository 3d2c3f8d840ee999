// SPDX-License-Identifier: BSD-3-Clause
// FlowKey: the fields of a frame that flow rules and receive hashing look at, as raw bytes in network order. A rule is a
// key and a mask, a frame fits when they agree in every bit of the mask. Fields a frame does not have are zero; `l3` and
// `l4` say which there are, so that a rule for UDP ports never fits a TCP segment. The same bytes travel from the
// provider to the daemon. Read the ibv_create_flow man page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rocemu {

struct FlowKey {
    uint8_t dst_mac[6] = {};
    uint8_t src_mac[6] = {};
    uint8_t ether_type[2] = {};  // behind a VLAN tag, if there is one
    uint8_t vlan_tci[2] = {};    // PCP (3 bits), DEI, VID (12 bits)
    uint8_t l3 = 0;              // 4, 6, or 0: no IP
    uint8_t l4 = 0;              // kTcp, kUdp, or 0: none of them, or not the first fragment
    uint8_t protocol = 0;        // IPv4: protocol; IPv6: next header
    uint8_t traffic_class = 0;   // IPv4: type of service
    uint8_t hop_limit = 0;       // IPv4: time to live
    uint8_t ip_flags = 0;        // IPv4: the three bits before the fragment offset
    uint8_t src_port[2] = {};
    uint8_t dst_port[2] = {};
    uint8_t flow_label[4] = {};  // IPv6, 20 bits
    uint8_t reserved[2] = {};
    uint8_t src_ip[16] = {};  // an IPv4 address is the first four bytes
    uint8_t dst_ip[16] = {};

    static constexpr uint8_t kTcp = 6, kUdp = 17;
};
static_assert(sizeof(FlowKey) == 64 && alignof(FlowKey) == 1);

// Does the frame with this key fit the rule? Precondition: rule has no bit outside of its mask.
[[nodiscard]] inline bool fits(const FlowKey& frame, const FlowKey& rule, const FlowKey& mask) {
    std::array<uint64_t, sizeof(FlowKey) / 8> f, r, m;
    std::memcpy(f.data(), &frame, sizeof frame);
    std::memcpy(r.data(), &rule, sizeof rule);
    std::memcpy(m.data(), &mask, sizeof mask);
    uint64_t differs = 0;
    for (size_t i = 0; i < f.size(); ++i) differs |= (f[i] & m[i]) ^ r[i];
    return differs == 0;
}

// The bits of `key` that are in `mask`.
[[nodiscard]] inline FlowKey masked(const FlowKey& key, const FlowKey& mask) {
    std::array<std::byte, sizeof(FlowKey)> k, m;
    std::memcpy(k.data(), &key, sizeof key);
    std::memcpy(m.data(), &mask, sizeof mask);
    for (size_t i = 0; i < k.size(); ++i) k[i] &= m[i];
    FlowKey result;
    std::memcpy(&result, k.data(), sizeof result);
    return result;
}

}  // namespace rocemu
