// SPDX-License-Identifier: BSD-3-Clause
// DREQ: request for communication release, from either side. Read IBTA volume 1, 12.6.10.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

struct Dreq {
    static constexpr Attribute kAttribute = Attribute::Dreq;
    static constexpr size_t kPrivateDataSize = 220;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    uint32_t remote_qpn = 0;  // 24 bits: the receiver's QP
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Dreq parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p), load_be<uint32_t>(p + 4), load_be24(p + 8),
                read_private<kPrivateDataSize>(p + 12)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, local_comm_id);
        store_be<uint32_t>(p + 4, remote_comm_id);
        store_be24(p + 8, remote_qpn);
        p[11] = std::byte{0};
        std::memcpy(p + 12, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const Dreq&) const = default;
};

}  // namespace rocemu::cm
