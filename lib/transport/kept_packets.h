// SPDX-License-Identifier: BSD-3-Clause
// KeptPackets: which packets that came too early are kept, in one direction of a QP. A packet that overtakes another is
// not lost: its bytes stay with the caller, here is only which PSNs there are. At most 63 PSNs ahead of the next one.
// See docs/adr/0009-kept-packets.md.
//
// DEVIATION: IBTA 9.7.5.1.3 answers a gap with a NAK at once. With reorder_packets set, the NAK waits until a packet
// comes that is further ahead, or for reorder_time: paths that reorder (ECMP, bonding) would cost a round each time. 0
// is strict.
#pragma once

#include <bit>
#include <cstdint>

namespace rocemu::transport {

class KeptPackets {
  public:
    static constexpr uint32_t kMost = 63;

    void clear() { bits_ = 0; }
    [[nodiscard]] bool any() const { return bits_ != 0; }
    // Notes the packet, unless it is further than `distance` ahead of `next` (the PSN that should come), or there
    // already.
    bool keep(uint64_t next, uint64_t psn, uint32_t distance) {
        if (bits_ == 0) origin_ = next;
        if (psn < next || psn - next > distance || psn - origin_ > kMost || contains(psn)) return false;
        bits_ |= bit(psn);
        return true;
    }
    [[nodiscard]] bool contains(uint64_t psn) const {
        return psn - origin_ <= kMost && (bits_ & bit(psn)) != 0;  // below the origin the difference is huge
    }
    // Precondition: any().
    [[nodiscard]] uint64_t lowest() const {
        return origin_ + static_cast<unsigned>(std::countr_zero(std::rotr(bits_, static_cast<int>(origin_ & kMost))));
    }
    // The lowest goes back into the chain.
    uint64_t take_lowest() {
        const uint64_t psn = lowest();
        bits_ &= ~bit(psn);
        return psn;
    }

  private:
    static constexpr uint64_t bit(uint64_t psn) { return uint64_t{1} << (psn & kMost); }

    uint64_t bits_ = 0;    // bit (psn & 63); all PSNs lie in [origin, origin + 63]
    uint64_t origin_ = 0;  // extended PSN
};

}  // namespace rocemu::transport
