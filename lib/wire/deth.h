// SPDX-License-Identifier: BSD-3-Clause
// Deth: datagram extended transport header of UD packets. Read IBTA volume 1, 9.3.2 and 3.5.3 (Q_Keys).
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct Deth {
    static constexpr size_t kSize = 8;

    uint32_t qkey = 0;
    uint32_t src_qp = 0;  // 24 bits

    [[nodiscard]] static Deth parse(const std::byte* p) { return {load_be<uint32_t>(p), load_be24(p + 5)}; }
    void write(std::byte* p) const {
        store_be<uint32_t>(p, qkey);
        store_be<uint32_t>(p + 4, src_qp & 0xffffff);
    }
};

}  // namespace rocemu::wire
