// SPDX-License-Identifier: BSD-3-Clause
// AtomicEth: operands of CmpSwap and FetchAdd requests. Read IBTA volume 1, 9.3.4 and 9.4.5.
// FetchAdd adds `swap_or_add` and leaves `compare` unused.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct AtomicEth {
    static constexpr size_t kSize = 28;

    uint64_t va = 0;
    uint32_t rkey = 0;
    uint64_t swap_or_add = 0;
    uint64_t compare = 0;

    [[nodiscard]] static AtomicEth parse(const std::byte* p) {
        return {load_be<uint64_t>(p), load_be<uint32_t>(p + 8), load_be<uint64_t>(p + 12), load_be<uint64_t>(p + 20)};
    }
    void write(std::byte* p) const {
        store_be<uint64_t>(p, va);
        store_be<uint32_t>(p + 8, rkey);
        store_be<uint64_t>(p + 12, swap_or_add);
        store_be<uint64_t>(p + 20, compare);
    }
};

}  // namespace rocemu::wire
