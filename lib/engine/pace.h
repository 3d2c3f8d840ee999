// SPDX-License-Identifier: BSD-3-Clause
// Pace: the rate limit of one QP (ibv_modify_qp_rate_limit(3)) as the time of its next request packet. What the QP has
// not used is saved up to one burst; a packet may overdraw it, the next ones wait for that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocemu::engine {

class Pace {
  public:
    // `kbps`: 0: no limit. `burst`: bytes that may leave at once; 0: what the rate brings in a millisecond.
    void set(uint32_t kbps, uint32_t burst, Instant now) {
        kbps_ = kbps;
        burst_ = std::max(burst != 0 ? burst : kbps / 8, 1u);
        ready_ = now;
        due = kNever;
    }
    [[nodiscard]] bool limited() const { return kbps_ != 0; }
    [[nodiscard]] bool holds(Instant now) const { return limited() && now < ready_; }
    [[nodiscard]] Instant ready() const { return ready_; }
    // Payload bytes of this turn, at most `most`. (At least one packet leaves whatever is said here.)
    [[nodiscard]] uint32_t budget(Instant now, uint32_t most) const {
        if (!limited()) return most;
        const auto saved = static_cast<uint64_t>(std::min(now - ready_, time_of(burst_))) * kbps_ / kKbpsNs;
        return static_cast<uint32_t>(std::min<uint64_t>(saved, most));
    }
    // Request packets of so many bytes have left, headers included.
    void spend(uint64_t bytes, Instant now) {
        if (limited() && bytes != 0) ready_ = std::max(ready_, now + -time_of(burst_)) + time_of(bytes);
    }

    Instant due = kNever;  // requests wait for it

  private:
    static constexpr uint64_t kKbpsNs = 8'000'000;  // ns that a byte takes at 1 kbit/s
    [[nodiscard]] Duration time_of(uint64_t bytes) const { return static_cast<Duration>(bytes * kKbpsNs / kbps_); }

    uint32_t kbps_ = 0;
    uint32_t burst_ = 0;
    Instant ready_{0};
};

}  // namespace rocemu::engine
