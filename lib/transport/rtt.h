// SPDX-License-Identifier: BSD-3-Clause
// RttEstimator: round-trip times of one QP, measured from packets that were sent once (an answer to a packet sent twice
// measures nothing: Karn), and from repetitions of packets of which the peer said that it does not have them. Smoothing
// as in RFC 6298.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocemu::transport {

class RttEstimator {
  public:
    void reset() { *this = RttEstimator{}; }
    // A packet (extended PSN) is sent for the first time.
    void sent(uint64_t psn, Instant now) {
        if (sampling_) return;
        sampling_ = true;
        psn_ = psn;
        at_ = now;
    }
    // A packet goes out once more (a probe, or going back): what acknowledges it may acknowledge the sample with it,
    // late.
    void sent_again(uint64_t psn) {
        if (psn <= psn_) sampling_ = false;
    }
    // Everything below `una` was answered.
    void acked(uint64_t una, Instant now) {
        if (!sampling_ || una <= psn_) return;
        sampling_ = false;
        const Duration rtt = std::max<Duration>(now - at_, 1);
        min_ = smoothed_ == 0 ? rtt : std::min(min_, rtt);
        take(rtt);
    }
    // From a repetition to its answer. Not for the minimum: the first copy may have been late instead of lost.
    void answered(Duration rtt) {
        if (smoothed_ != 0) take(std::max<Duration>(rtt, 1));
    }
    void cancel() { sampling_ = false; }

    [[nodiscard]] bool measured() const { return smoothed_ != 0; }
    [[nodiscard]] Duration min() const { return min_; }  // 0: not measured
    [[nodiscard]] Duration smoothed() const { return smoothed_; }
    [[nodiscard]] Duration variation() const { return variation_; }

  private:
    void take(Duration rtt) {
        if (smoothed_ == 0) {
            smoothed_ = rtt;
            variation_ = rtt / 2;
            return;
        }
        variation_ += (std::max(rtt - smoothed_, smoothed_ - rtt) - variation_) / 4;
        smoothed_ += (rtt - smoothed_) / 8;
    }

    bool sampling_ = false;
    uint64_t psn_ = 0;
    Instant at_{0};
    Duration min_ = 0, smoothed_ = 0, variation_ = 0;
};

}  // namespace rocemu::transport
