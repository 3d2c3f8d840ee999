// SPDX-License-Identifier: BSD-3-Clause
// RTU: ready to use, the third message of a connection, from the active side. Read IBTA volume 1, 12.6.9.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

struct Rtu {
    static constexpr Attribute kAttribute = Attribute::Rtu;
    static constexpr size_t kPrivateDataSize = 224;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Rtu parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p), load_be<uint32_t>(p + 4), read_private<kPrivateDataSize>(p + 8)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, local_comm_id);
        store_be<uint32_t>(p + 4, remote_comm_id);
        std::memcpy(p + 8, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const Rtu&) const = default;
};

}  // namespace rocemu::cm
