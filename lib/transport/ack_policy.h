// SPDX-License-Identifier: BSD-3-Clause
// AckPolicy: when the responder acknowledges. One ACK stands for all packets placed up to its PSN: it leaves with the
// next poll_transmit after a packet asked for it, so a burst costs one ACK and a peer never waits for its timer. Read
// IBTA volume 1, 9.7.5.1.2 (coalescing), 9.7.5.1.1 (AckReq).
#pragma once

#include <algorithm>
#include <cstdint>

namespace rocemu::transport {

// A position that may be acknowledged: an extended PSN and the MSN that belongs to it.
struct AckPoint {
    uint64_t psn = 0;
    uint32_t msn = 0;
};

class AckPolicy {
  public:
    // Packets of a peer that never asks are acknowledged now and then, so that its window moves.
    static constexpr uint32_t kUnaskedPackets = 64;

    void reset(uint64_t expected) {
        placed_ = AckPoint{expected - 1, 0};
        acked_ = asked_ = expected - 1;
        repeat_ = {};
    }
    // Everything up to here is executed and placed.
    void advance(AckPoint point) {
        if (point.psn > placed_.psn) placed_ = point;
    }
    void ask(uint64_t psn) { asked_ = std::max(asked_, psn); }
    // A repeated SEND or WRITE is to be acknowledged again, at this point.
    void repeat(AckPoint point) { repeat_ = point; }
    // A response was sent that implies the acknowledgement of everything up to `psn`.
    void implied(uint64_t psn) { acked_ = std::max(acked_, psn); }

    [[nodiscard]] const AckPoint& placed() const { return placed_; }
    // True and the point if an ACK must leave now. Ask again until false.
    bool next(AckPoint& point) {
        if (repeat_.psn != 0) {
            point = repeat_;
            repeat_ = {};
            return true;
        }
        if (!due()) return false;
        point = placed_;
        acked_ = placed_.psn;
        return true;
    }

  private:
    [[nodiscard]] bool due() const {
        return placed_.psn > acked_ && (asked_ > acked_ || placed_.psn - acked_ >= kUnaskedPackets);
    }

    AckPoint placed_;
    uint64_t acked_ = 0;  // newest PSN acknowledged, explicitly or by a response
    uint64_t asked_ = 0;  // newest PSN with AckReq
    AckPoint repeat_;
};

}  // namespace rocemu::transport
