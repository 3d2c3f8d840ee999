// SPDX-License-Identifier: BSD-3-Clause
// XrcEth: the shared receive queue an XRC request is for; in every XRC request packet, right behind the BTH.
// Read IBTA annex A14.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct XrcEth {
    static constexpr size_t kSize = 4;

    uint32_t srqn = 0;  // 24 bits

    [[nodiscard]] static XrcEth parse(const std::byte* p) { return {load_be24(p + 1)}; }
    void write(std::byte* p) const { store_be<uint32_t>(p, srqn & 0xffffff); }
};

}  // namespace rocemu::wire
