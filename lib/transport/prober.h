// SPDX-License-Identifier: BSD-3-Clause
// Prober: after some round trips of silence the oldest packet is sent again, asking for an ACK. The answer tells what
// the peer has, long before the ACK timer would. A probe is not a retry: it costs nothing of retry_cnt and leaves the
// timer alone; whether the peer is dead only the timer decides. Not in the specification, which allows any packet
// to be repeated at any time (IBTA volume 1, 9.7.5.1.4: duplicates); compare RFC 8985, tail loss probe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/rtt.h"

namespace rocemu::transport {

class Prober {
  public:
    static constexpr Duration kShortest = 200 * kMicrosecond;
    static constexpr uint32_t kProbes = 3;  // without progress; then it is the timer's turn

    void reset() { *this = Prober{}; }
    void sent(Instant now) { quiet_since_ = now; }
    // `una` (extended) moved.
    void progress(Instant now, uint64_t una) {
        // The probe's packet alone was missing and was taken: what followed it is missing too.
        alone_ = probes_ != 0 && una == probed_ + 1 ? alone_ + 1 : 0;
        probes_ = 0;
        quiet_since_ = now;
    }
    // When to probe if nothing happens until then. `data`: the oldest packet is a READ, whose repetition costs its
    // answer.
    [[nodiscard]] Instant due(const RttEstimator& rtt, bool data) const {
        if (!rtt.measured() || probes_ == kProbes) return kNever;
        const Duration quiet = std::max({kShortest, 4 * rtt.smoothed(), rtt.smoothed() + 4 * rtt.variation()});
        return quiet_since_ + (quiet << (2 * probes_ + (data ? 2 : 0)));
    }
    void probed(Instant now, uint64_t psn) {
        ++probes_;
        probed_ = psn;
        quiet_since_ = now;
    }
    // Two probes in a row found their packet missing: the whole tail is, going back is cheaper than probing through it.
    // True once.
    bool tail_is_lost() {
        if (alone_ < 2) return false;
        alone_ = 0;
        return true;
    }

  private:
    Instant quiet_since_{0};
    uint64_t probed_ = 0;
    uint32_t probes_ = 0;
    uint32_t alone_ = 0;
};

}  // namespace rocemu::transport
