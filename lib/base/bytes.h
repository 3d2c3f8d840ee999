// SPDX-License-Identifier: BSD-3-Clause
// Big-endian loads and stores on byte pointers: the only way lib/wire touches header fields. No alignment needed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rocemu {

template <typename T>
[[nodiscard]] inline T load_be(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (sizeof(T) == 1) return v;
    else if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(v));
    else if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(v));
    else return static_cast<T>(__builtin_bswap64(v));
}

template <typename T>
inline void store_be(std::byte* p, T v) {
    if constexpr (sizeof(T) == 2) v = static_cast<T>(__builtin_bswap16(v));
    else if constexpr (sizeof(T) == 4) v = static_cast<T>(__builtin_bswap32(v));
    else if constexpr (sizeof(T) == 8) v = static_cast<T>(__builtin_bswap64(v));
    std::memcpy(p, &v, sizeof v);
}

[[nodiscard]] inline uint32_t load_be24(const std::byte* p) {
    return static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 8 | static_cast<uint32_t>(p[2]);
}
inline void store_be24(std::byte* p, uint32_t v) {
    p[0] = static_cast<std::byte>(v >> 16);
    p[1] = static_cast<std::byte>(v >> 8);
    p[2] = static_cast<std::byte>(v);
}
static_assert(std::endian::native == std::endian::little, "rocemu is written for little-endian hosts");

}  // namespace rocemu
