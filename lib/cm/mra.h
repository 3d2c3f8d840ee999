// SPDX-License-Identifier: BSD-3-Clause
// MRA: message receipt acknowledgement, "wait longer, I am working on it". Read IBTA volume 1, 12.6.6.
#pragma once

#include "cm/mad.h"
#include "cm/message_kind.h"
#include "cm/private_data.h"

namespace rocemu::cm {

struct Mra {
    static constexpr Attribute kAttribute = Attribute::Mra;
    static constexpr size_t kPrivateDataSize = 222;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    MessageKind message = MessageKind::Req;  // 2 bits
    uint8_t service_timeout = 0;             // 5 bits, 4.096 us * 2^n
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Mra parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p), load_be<uint32_t>(p + 4), static_cast<MessageKind>(bits(p[8], 6, 2)),
                bits(p[9], 3, 5), read_private<kPrivateDataSize>(p + 10)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, local_comm_id);
        store_be<uint32_t>(p + 4, remote_comm_id);
        p[8] = field(static_cast<unsigned>(message), 6, 2);
        p[9] = field(service_timeout, 3, 5);
        std::memcpy(p + 10, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const Mra&) const = default;
};

}  // namespace rocemu::cm
