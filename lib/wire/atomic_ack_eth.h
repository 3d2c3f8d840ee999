// SPDX-License-Identifier: BSD-3-Clause
// AtomicAckEth: the value an atomic operation found, in the ATOMIC ACKNOWLEDGE behind the AETH.
// Read IBTA volume 1, 9.5.3. The value travels big-endian and is stored in the requester's host order.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct AtomicAckEth {
    static constexpr size_t kSize = 8;

    uint64_t original = 0;

    [[nodiscard]] static AtomicAckEth parse(const std::byte* p) { return {load_be<uint64_t>(p)}; }
    void write(std::byte* p) const { store_be<uint64_t>(p, original); }
};

}  // namespace rocemu::wire
