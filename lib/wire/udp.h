// SPDX-License-Identifier: BSD-3-Clause
// UdpHeader, and the UDP source port that spreads RoCE v2 flows over paths.
// Read RFC 768, IBTA annex A17.3.1.3: destination port 4791, the source port is constant within an ordered flow,
// the checksum should be 0 on transmission and is not looked at on reception.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

inline constexpr uint16_t kRoceUdpPort = 4791;

struct UdpHeader {
    static constexpr size_t kSize = 8;

    uint16_t src_port = 0;
    uint16_t dst_port = kRoceUdpPort;
    uint16_t length = 0;  // this header, the payload and the ICRC
    uint16_t checksum = 0;

    [[nodiscard]] static UdpHeader parse(const std::byte* p) {
        return {load_be<uint16_t>(p), load_be<uint16_t>(p + 2), load_be<uint16_t>(p + 4), load_be<uint16_t>(p + 6)};
    }
    void write(std::byte* p) const {
        store_be<uint16_t>(p, src_port);
        store_be<uint16_t>(p + 2, dst_port);
        store_be<uint16_t>(p + 4, length);
        store_be<uint16_t>(p + 6, checksum);
    }
};

// The source port every Linux RoCE driver derives for a flow, always in 49152..65535. A flow label (20 bits) of 0
// means "not given": then the pair of QP numbers stands in for it, the same from both ends.
[[nodiscard]] constexpr uint16_t udp_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn) {
    uint32_t label = flow_label & 0xfffff;
    if (label == 0) {
        uint64_t v = uint64_t{local_qpn} * remote_qpn;
        v ^= v >> 20;
        v ^= v >> 40;
        label = static_cast<uint32_t>(v & 0xfffff);
    }
    return static_cast<uint16_t>(((label & 0x3fff) ^ (label >> 14)) | 0xc000);
}

}  // namespace rocemu::wire
