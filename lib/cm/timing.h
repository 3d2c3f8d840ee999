// SPDX-License-Identifier: BSD-3-Clause
// Durations of the connection manager. Read IBTA volume 1, 12.7 (timeout fields) and 9.7.6.1.3 (local ACK timeout).
// Timeouts on the wire are five bits n that mean 4.096 us * 2^n.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rocemu::cm {

// DEVIATION: a peer may ask for hours (n = 31); a wait that a peer can choose is bounded by n = 25, 137 s,
inline constexpr uint8_t kLongestWait = 25;
// ... and a peer that asks for microseconds does not make us send in bursts.
inline constexpr Duration kShortestResponse = 10 * kMillisecond;

[[nodiscard]] constexpr Duration time_of(uint8_t n) {
    return Duration{4096} << std::min(n, kLongestWait);
}

// How long one transmission waits for its answer: the time the peer may think, and the way there and back.
[[nodiscard]] constexpr Duration response_time(uint8_t response_timeout, uint8_t packet_lifetime) {
    return std::max(time_of(response_timeout) + 2 * time_of(packet_lifetime), kShortestResponse);
}

// IBTA 12.7 asks for twice the packet lifetime plus the ACK delay of the responder as local ACK timeout. In powers
// of two: the larger of the two terms, plus one when the smaller is as large as half of it.
[[nodiscard]] constexpr uint8_t ack_timeout_of(uint8_t ack_delay, uint8_t packet_lifetime) {
    const int twice = packet_lifetime + 1;
    const int larger = std::max<int>(twice, ack_delay), smaller = std::min<int>(twice, ack_delay);
    return static_cast<uint8_t>(std::min(larger + (smaller >= larger - 1 ? 1 : 0), 31));
}

}  // namespace rocemu::cm
