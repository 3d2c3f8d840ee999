// SPDX-License-Identifier: BSD-3-Clause
// The RNR NAK timer: 32 codes of five bits, each a delay the requester must not undercut.
// Read IBTA volume 1, table in 9.7.5.2.8. Code 0 is the longest.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace rocemu::transport {

namespace detail {
// In units of 10 microseconds.
inline constexpr std::array<uint32_t, 32> kRnrDelays{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
}  // namespace detail

[[nodiscard]] constexpr Duration rnr_delay(uint8_t code) {
    return static_cast<Duration>(detail::kRnrDelays[code & 31]) * 10 * kMicrosecond;
}

}  // namespace rocemu::transport
