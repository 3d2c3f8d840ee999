// SPDX-License-Identifier: BSD-3-Clause
// Ieth: the R_Key that a SEND WITH INVALIDATE takes away at the responder. Read IBTA volume 1, 9.3.7 and 9.4.1.1.3.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct Ieth {
    static constexpr size_t kSize = 4;

    uint32_t rkey = 0;

    [[nodiscard]] static Ieth parse(const std::byte* p) { return {load_be<uint32_t>(p)}; }
    void write(std::byte* p) const { store_be<uint32_t>(p, rkey); }
};

}  // namespace rocemu::wire
