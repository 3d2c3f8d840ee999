// SPDX-License-Identifier: BSD-3-Clause
// Reth: RDMA extended transport header: which remote memory a WRITE, READ, FLUSH or ATOMIC WRITE is about.
// Read IBTA volume 1, 9.3.3. The length limit of 2^31 (C9-94) is the responder's to check.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

struct Reth {
    static constexpr size_t kSize = 16;

    uint64_t va = 0;
    uint32_t rkey = 0;
    uint32_t length = 0;  // DMA length of the whole message, bytes

    [[nodiscard]] static Reth parse(const std::byte* p) {
        return {load_be<uint64_t>(p), load_be<uint32_t>(p + 8), load_be<uint32_t>(p + 12)};
    }
    void write(std::byte* p) const {
        store_be<uint64_t>(p, va);
        store_be<uint32_t>(p + 8, rkey);
        store_be<uint32_t>(p + 12, length);
    }
};

}  // namespace rocemu::wire
