// SPDX-License-Identifier: BSD-3-Clause
// See rx_hash.h.
#include "net/rx_hash.h"

#include <algorithm>

namespace rocemu::net {

uint32_t toeplitz(std::span<const uint8_t, kRxHashKeyBytes> key, std::span<const uint8_t> input) {
    uint32_t window = uint32_t{key[0]} << 24 | uint32_t{key[1]} << 16 | uint32_t{key[2]} << 8 | key[3];
    uint32_t result = 0;
    for (size_t i = 0; i < input.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            if (input[i] & (0x80u >> bit)) result ^= window;
            window = window << 1 | ((key[i + 4] >> (7 - bit)) & 1);
        }
    }
    return result;
}

uint32_t rx_hash_of(const RxHash& hash, const FlowKey& frame) {
    using namespace rx_hash_fields;
    const uint32_t f = hash.fields;
    std::array<uint8_t, 36> input;  // two IPv6 addresses, two ports
    size_t size = 0;
    const auto add = [&](const uint8_t* bytes, size_t count) {
        std::copy_n(bytes, count, input.begin() + static_cast<ptrdiff_t>(size));
        size += count;
    };
    if (((f & kIpv4) && frame.l3 != 4) || ((f & kIpv6) && frame.l3 != 6)) return 0;
    if (((f & kTcp) && frame.l4 != FlowKey::kTcp) || ((f & kUdp) && frame.l4 != FlowKey::kUdp)) return 0;
    const size_t address = (f & kIpv6) ? 16 : 4;
    if (f & (kSrcIpv4 | kSrcIpv6)) add(frame.src_ip, address);
    if (f & (kDstIpv4 | kDstIpv6)) add(frame.dst_ip, address);
    if (f & (kSrcPortTcp | kSrcPortUdp)) add(frame.src_port, 2);
    if (f & (kDstPortTcp | kDstPortUdp)) add(frame.dst_port, 2);
    return toeplitz(hash.key, {input.data(), size});
}

}  // namespace rocemu::net
