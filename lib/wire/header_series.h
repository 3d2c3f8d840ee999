// SPDX-License-Identifier: BSD-3-Clause
// HeaderSeries: headers without extensions of packets that differ in PSN, AckReq and IP identification only, as the middle
// of a long message has them: made once, copied and patched for each. See build.h.
#pragma once

#include <cassert>
#include <cstring>

#include "wire/build.h"
#include "wire/ipv4.h"

namespace rocemu::wire {

class HeaderSeries {
  public:
    HeaderSeries() = default;
    // Precondition: the opcode has no extension headers.
    HeaderSeries(const HeaderTemplate& headers, Bth bth, size_t payload_length) {
        bth.psn = 0;
        bth.ack_req = false;
        assert(opcode_info(bth.opcode).ext_size == 0);
        size_ = static_cast<uint8_t>(headers.build(bytes_.data(), bth, {}, payload_length, 0));
        if (headers.network() != NetworkType::V2Ipv4) return;
        ipv4_ = static_cast<uint8_t>(headers.l3_offset());
        for (size_t at = 0; at < Ipv4Header::kSize; at += 2)
            if (at != 10) checksum_base_ += load_be<uint16_t>(bytes_.data() + ipv4_ + at);
    }

    [[nodiscard]] size_t size() const { return size_; }
    // Writes size() bytes, and may write to kMaxHeaders.
    void write(std::byte* out, uint32_t psn, bool ack_req, uint16_t ip_id) const {
        std::memcpy(out, bytes_.data(), kCopied);
        if (ipv4_ != 0) {
            store_be<uint16_t>(out + ipv4_ + 4, ip_id);
            store_be<uint16_t>(out + ipv4_ + 10, Ipv4Header::fold_checksum(checksum_base_ + ip_id));
        }
        store_be<uint32_t>(out + size_ - 4, (ack_req ? 0x8000'0000u : 0) | (psn & 0xffffff));
    }

  private:
    static constexpr size_t kCopied = kMaxEnvelope + Bth::kSize;  // a fixed size is cheaper
    std::array<std::byte, kMaxHeaders> bytes_{};
    uint32_t checksum_base_ = 0;  // sum of the words of the IPv4 header, with an identification of 0
    uint8_t size_ = 0;
    uint8_t ipv4_ = 0;  // offset of the IPv4 header, or 0
};

}  // namespace rocemu::wire
