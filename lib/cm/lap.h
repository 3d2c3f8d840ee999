// SPDX-License-Identifier: BSD-3-Clause
// LAP: proposal of an alternate path for an established connection. Read IBTA volume 1, 12.8.1.
// Path migration does not exist on RoCE: a LAP is answered with an APR that refuses it (established.cpp).
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"
#include "wire/gid.h"

namespace rocemu::cm {

struct Lap {
    static constexpr Attribute kAttribute = Attribute::Lap;
    static constexpr size_t kPrivateDataSize = 168;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    uint32_t remote_qpn = 0;                 // 24 bits
    uint8_t remote_cm_response_timeout = 0;  // 5 bits, 4.096 us * 2^n
    uint16_t alternate_local_lid = 0;
    uint16_t alternate_remote_lid = 0;
    wire::Gid alternate_local_gid{};
    wire::Gid alternate_remote_gid{};
    uint32_t alternate_flow_label = 0;  // 20 bits
    uint8_t alternate_traffic_class = 0;
    uint8_t alternate_hop_limit = 0;
    uint8_t alternate_packet_rate = 0;  // 6 bits
    uint8_t alternate_sl = 0;           // 4 bits
    bool alternate_subnet_local = false;
    uint8_t alternate_local_ack_timeout = 0;  // 5 bits
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Lap parse(const Mad& mad);
    void write(Mad& mad) const;
    bool operator==(const Lap&) const = default;
};

}  // namespace rocemu::cm
