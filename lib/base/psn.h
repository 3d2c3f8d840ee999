// SPDX-License-Identifier: BSD-3-Clause
// Psn: a 24-bit packet sequence number. Read IBTA volume 1, 9.7.1 (PSN space) first.
//
// There is deliberately no operator<: 24-bit numbers on a circle have no order, only a distance from a
// reference. At most 2^23 PSNs may be outstanding, so a distance in [-2^23, 2^23) is never ambiguous.
#pragma once

#include <cstdint>

namespace rocemu {

class Psn {
  public:
    static constexpr uint32_t kMask = 0xFFFFFF;
    static constexpr int32_t kHalf = 1 << 23;

    constexpr Psn() = default;
    constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

    [[nodiscard]] constexpr uint32_t value() const { return value_; }

    constexpr Psn operator+(uint32_t packets) const { return Psn(value_ + packets); }
    constexpr Psn operator-(uint32_t packets) const { return Psn(value_ - packets); }
    constexpr Psn& operator+=(uint32_t packets) {
        value_ = (value_ + packets) & kMask;
        return *this;
    }
    constexpr Psn& operator++() { return *this += 1; }
    constexpr bool operator==(const Psn&) const = default;

    // Signed distance `this - reference` modulo 2^24, in [-2^23, 2^23).
    [[nodiscard]] constexpr int32_t distance_from(Psn reference) const {
        const auto d = static_cast<int32_t>((value_ - reference.value_) & kMask);
        return d >= kHalf ? d - (kHalf << 1) : d;
    }
    // IBTA 9.7.1: the 2^23 numbers behind the expected one are duplicates.
    [[nodiscard]] constexpr bool is_before(Psn reference) const { return distance_from(reference) < 0; }
    [[nodiscard]] constexpr bool is_after(Psn reference) const { return distance_from(reference) > 0; }

  private:
    uint32_t value_ = 0;
};

}  // namespace rocemu
