// SPDX-License-Identifier: BSD-3-Clause
// SIDR_REQ: asks which UD QP serves a service id. Read IBTA volume 1, 12.11.1.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

struct SidrReq {
    static constexpr Attribute kAttribute = Attribute::SidrReq;
    static constexpr size_t kPrivateDataSize = 216;

    uint32_t request_id = 0;
    uint16_t partition_key = 0xffff;
    uint64_t service_id = 0;
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static SidrReq parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p), load_be<uint16_t>(p + 4), load_be<uint64_t>(p + 8),
                read_private<kPrivateDataSize>(p + 16)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, request_id);
        store_be<uint16_t>(p + 4, partition_key);
        store_be<uint16_t>(p + 6, 0);
        store_be<uint64_t>(p + 8, service_id);
        std::memcpy(p + 16, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const SidrReq&) const = default;
};

}  // namespace rocemu::cm
