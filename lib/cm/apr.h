// SPDX-License-Identifier: BSD-3-Clause
// APR: answer to a LAP. Read IBTA volume 1, 12.8.2.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

enum class AprStatus : uint8_t {
    Accepted = 0,
    InvalidCommId = 1,
    Unsupported = 2,  // alternate paths are not supported
    Rejected = 3,
    Redirect = 4,
    IsCurrent = 5,
    QpnMismatch = 6,
};

struct Apr {
    static constexpr Attribute kAttribute = Attribute::Apr;
    static constexpr size_t kPrivateDataSize = 148;
    static constexpr size_t kInfoSize = 72;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    uint8_t info_length = 0;
    AprStatus status = AprStatus::Accepted;
    PrivateData<kInfoSize> info{};
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Apr parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p),         load_be<uint32_t>(p + 4),        static_cast<uint8_t>(p[8]),
                static_cast<AprStatus>(p[9]), read_private<kInfoSize>(p + 12), read_private<kPrivateDataSize>(p + 84)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, local_comm_id);
        store_be<uint32_t>(p + 4, remote_comm_id);
        p[8] = std::byte{info_length};
        p[9] = static_cast<std::byte>(status);
        store_be<uint16_t>(p + 10, 0);
        std::memcpy(p + 12, info.data(), kInfoSize);
        std::memcpy(p + 84, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const Apr&) const = default;
};

}  // namespace rocemu::cm
