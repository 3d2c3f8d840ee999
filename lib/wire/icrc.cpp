// SPDX-License-Identifier: BSD-3-Clause
// ICRC: see icrc.h. The mask is a constant per network type that the CRC kernel ORs into its loads: patching single
// bytes of a copy first would make the following wide loads wait for the narrow stores.
// Read IBTA annex A17.3.3 (CA17-22) and volume 1, 7.8.1.
#include "wire/icrc.h"

#include <algorithm>
#include <array>

#include "wire/bth.h"
#include "wire/opcode.h"

namespace rocemu::wire {
namespace {

// Longer than the longest headers: a short packet is summed in one call, payload and all.
constexpr size_t kMaskSize = kShortPacket;
static_assert(kMaskSize >= 40 + 8 + Bth::kSize + kMaxExtSize);
using Mask = std::array<std::byte, kMaskSize>;

constexpr Mask make_mask(NetworkType network) {
    Mask mask{};
    constexpr auto kOnes = std::byte{0xff};
    const size_t bth = bth_offset(network);
    if (network == NetworkType::V2Ipv4) {
        mask[1] = kOnes;              // TOS
        mask[8] = kOnes;              // TTL
        mask[10] = mask[11] = kOnes;  // header checksum
    } else {
        mask[0] = std::byte{0x0f};  // traffic class, flow label; not the version
        mask[1] = mask[2] = mask[3] = kOnes;
        mask[7] = kOnes;  // hop limit
    }
    if (network != NetworkType::RoceV1) mask[bth - 2] = mask[bth - 1] = kOnes;  // UDP checksum
    mask[bth + 4] = kOnes;                                                      // FECN, BECN, reserved
    return mask;
}

constexpr std::array<Mask, 3> kMasks{make_mask(NetworkType::RoceV1), make_mask(NetworkType::V2Ipv4),
                                     make_mask(NetworkType::V2Ipv6)};
static_assert(static_cast<int>(NetworkType::RoceV1) == 0 && static_cast<int>(NetworkType::V2Ipv6) == 2);

}  // namespace

uint32_t icrc_header_part(std::span<const std::byte> headers, NetworkType network) {
    const Mask& mask = kMasks[static_cast<size_t>(network)];
    const size_t masked = std::min(headers.size(), mask.size());
    const uint32_t state = active_crc_kernel().update_masked(kIcrcSeed, headers.data(), mask.data(), masked);
    return headers.size() == masked ? state : crc32_update(state, headers.data() + masked, headers.size() - masked);
}

uint32_t icrc_headers_and_copy(std::span<const std::byte> headers, NetworkType network, std::byte* to,
                               std::span<const std::byte> payload) {
    if (headers.size() > kMaskSize)
        return crc32_copy(icrc_header_part(headers, network), to, payload.data(), payload.size());
    return active_crc_kernel().headed(kIcrcSeed, headers.data(), kMasks[static_cast<size_t>(network)].data(), headers.size(),
                                      to, payload.data(), payload.size());
}

uint32_t icrc_of_packet(std::span<const std::byte> l3, NetworkType network) {
    if (l3.size() <= kMaskSize) return icrc_finish(icrc_header_part(l3, network));
    // Long packets: the masked part ends behind the BTH, so that the rest is one run of the kernel, whose size is a
    // multiple of 16, which it does without a second reduction.
    const size_t bth_end = bth_offset(network) + Bth::kSize;
    const size_t head = bth_end + (l3.size() - bth_end) % 16;
    return icrc_finish(active_crc_kernel().headed(kIcrcSeed, l3.data(), kMasks[static_cast<size_t>(network)].data(), head,
                                                  nullptr, l3.data() + head, l3.size() - head));
}

}  // namespace rocemu::wire
