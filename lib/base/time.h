// SPDX-License-Identifier: BSD-3-Clause
// Instants and durations of the protocol core. Nothing here reads a clock: `now` always comes as an argument,
// so that every protocol test can run in virtual time.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace rocemu {

using Duration = int64_t;  // nanoseconds

struct Instant {
    int64_t ns = 0;  // nanoseconds since an arbitrary origin, the same for all callers of one object

    constexpr auto operator<=>(const Instant&) const = default;
    constexpr Instant operator+(Duration d) const { return {ns + d}; }
    constexpr Duration operator-(Instant o) const { return ns - o.ns; }
};

inline constexpr Instant kNever{std::numeric_limits<int64_t>::max()};
inline constexpr Duration kMicrosecond = 1'000;
inline constexpr Duration kMillisecond = 1'000'000;
inline constexpr Duration kSecond = 1'000'000'000;

}  // namespace rocemu
