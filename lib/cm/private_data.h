// SPDX-License-Identifier: BSD-3-Clause
// PrivateData: the tail of each CM message that belongs to the consumers. Read IBTA volume 1, 12.6 and 12.7.
// Its size is a property of the message, not of what was given: shorter data is padded with zeros, the peer always
// sees the full size, and there is no length on the wire.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace rocemu::cm {

template <size_t N>
using PrivateData = std::array<std::byte, N>;

inline constexpr size_t kMaxPrivateData = 224;  // RTU and DREP

// Precondition: from.size() <= N - offset (callers check and refuse).
template <size_t N>
void fill(PrivateData<N>& to, std::span<const std::byte> from, size_t offset = 0) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
}

template <size_t N>
[[nodiscard]] PrivateData<N> read_private(const std::byte* p) {
    PrivateData<N> data;
    std::memcpy(data.data(), p, N);
    return data;
}

}  // namespace rocemu::cm
