// SPDX-License-Identifier: BSD-3-Clause
// Input: a fuzzer's bytes, read from the front; when they are used up there are zeros. check(): what must hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace rocemu::fuzz {

inline void check(bool ok) {
    if (!ok) std::abort();
}

struct Input {
    const uint8_t* data;
    size_t size;

    uint8_t byte() { return size == 0 ? 0 : (--size, *data++); }
    uint16_t half() {
        const auto high = static_cast<uint16_t>(byte() << 8);
        return static_cast<uint16_t>(high | byte());
    }
    uint32_t word() {
        const uint32_t high = half();
        return high << 16 | half();
    }
    // At most n bytes of what is left.
    std::vector<std::byte> bytes(size_t n) {
        n = std::min(n, size);
        const auto* from = reinterpret_cast<const std::byte*>(data);
        data += n;
        size -= n;
        return {from, from + n};
    }
    void fill(void* to, size_t n) {
        const auto v = bytes(n);
        if (!v.empty()) std::memcpy(to, v.data(), v.size());
    }
};

}  // namespace rocemu::fuzz
