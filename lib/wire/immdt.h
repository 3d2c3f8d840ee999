// SPDX-License-Identifier: BSD-3-Clause
// ImmDt: four bytes of immediate data. Read IBTA volume 1, 9.3.6.
// Verbs hands applications imm_data in network order; `data` is in host order like every other field, so the
// completion needs the value swapped back (or the four bytes copied as they are).
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct ImmDt {
    static constexpr size_t kSize = 4;

    uint32_t data = 0;

    [[nodiscard]] static ImmDt parse(const std::byte* p) { return {load_be<uint32_t>(p)}; }
    void write(std::byte* p) const { store_be<uint32_t>(p, data); }
};

}  // namespace rocemu::wire
