// SPDX-License-Identifier: BSD-3-Clause
// SIDR_REP: the UD QP and Q_Key behind a service id, or why there is none. Read IBTA volume 1, 12.11.2.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

enum class SidrStatus : uint8_t {
    Valid = 0,
    ServiceNotSupported = 1,
    RejectedByService = 2,
    NoQp = 3,
    Redirect = 4,
    UnsupportedVersion = 5,
};

struct SidrRep {
    static constexpr Attribute kAttribute = Attribute::SidrRep;
    static constexpr size_t kPrivateDataSize = 136;
    static constexpr size_t kInfoSize = 72;

    uint32_t request_id = 0;
    SidrStatus status = SidrStatus::Valid;
    uint8_t info_length = 0;
    uint32_t qpn = 0;  // 24 bits
    uint64_t service_id = 0;
    uint32_t qkey = 0;
    PrivateData<kInfoSize> info{};
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static SidrRep parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p),
                static_cast<SidrStatus>(p[4]),
                static_cast<uint8_t>(p[5]),
                load_be24(p + 8),
                load_be<uint64_t>(p + 12),
                load_be<uint32_t>(p + 20),
                read_private<kInfoSize>(p + 24),
                read_private<kPrivateDataSize>(p + 96)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, request_id);
        p[4] = static_cast<std::byte>(status);
        p[5] = std::byte{info_length};
        store_be<uint16_t>(p + 6, 0);
        store_be24(p + 8, qpn);
        p[11] = std::byte{0};
        store_be<uint64_t>(p + 12, service_id);
        store_be<uint32_t>(p + 20, qkey);
        std::memcpy(p + 24, info.data(), kInfoSize);
        std::memcpy(p + 96, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const SidrRep&) const = default;
};

}  // namespace rocemu::cm
