// SPDX-License-Identifier: BSD-3-Clause
// Feth: flush extended transport header: how far and what a FLUSH makes persistent. Read IBTA annex A19.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct Feth {
    static constexpr size_t kSize = 4;

    uint8_t selectivity = 0;  // 2 bits: 0 range of the RETH, 1 whole memory region
    uint8_t placement = 0;    // 4 bits: bit 0 global visibility, bit 1 persistence

    [[nodiscard]] static Feth parse(const std::byte* p) {
        const auto low = load_be<uint8_t>(p + 3);
        return {static_cast<uint8_t>((low >> 4) & 3), static_cast<uint8_t>(low & 15)};
    }
    void write(std::byte* p) const { store_be<uint32_t>(p, uint32_t{selectivity & 3u} << 4 | (placement & 15u)); }
};

}  // namespace rocemu::wire
