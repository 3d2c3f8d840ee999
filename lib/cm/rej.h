// SPDX-License-Identifier: BSD-3-Clause
// REJ: refusal of a REQ, a REP, or of a connection that is being made. Read IBTA volume 1, 12.6.7.
#pragma once

#include "cm/mad.h"
#include "cm/message_kind.h"
#include "cm/private_data.h"
#include "cm/reject_reason.h"

namespace rocemu::cm {

struct Rej {
    static constexpr Attribute kAttribute = Attribute::Rej;
    static constexpr size_t kPrivateDataSize = 148;
    static constexpr size_t kInfoSize = 72;

    uint32_t local_comm_id = 0;  // 0 when no connection was made for the refused REQ
    uint32_t remote_comm_id = 0;
    MessageKind message = MessageKind::Req;  // 2 bits
    uint8_t info_length = 0;                 // 7 bits, bytes used of `info`
    RejectReason reason{};
    PrivateData<kInfoSize> info{};  // "additional rejection information": its meaning depends on the reason
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Rej parse(const Mad& mad) {
        const std::byte* p = body_of(mad);
        return {load_be<uint32_t>(p),
                load_be<uint32_t>(p + 4),
                static_cast<MessageKind>(bits(p[8], 6, 2)),
                bits(p[9], 1, 7),
                static_cast<RejectReason>(load_be<uint16_t>(p + 10)),
                read_private<kInfoSize>(p + 12),
                read_private<kPrivateDataSize>(p + 84)};
    }
    void write(Mad& mad) const {
        std::byte* p = body_of(mad);
        store_be<uint32_t>(p, local_comm_id);
        store_be<uint32_t>(p + 4, remote_comm_id);
        p[8] = field(static_cast<unsigned>(message), 6, 2);
        p[9] = field(info_length, 1, 7);
        store_be<uint16_t>(p + 10, static_cast<uint16_t>(reason));
        std::memcpy(p + 12, info.data(), kInfoSize);
        std::memcpy(p + 84, private_data.data(), kPrivateDataSize);
    }
    bool operator==(const Rej&) const = default;
};

}  // namespace rocemu::cm
