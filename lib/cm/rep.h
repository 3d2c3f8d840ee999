// SPDX-License-Identifier: BSD-3-Clause
// REP: reply to a request for communication, from the passive side. Read IBTA volume 1, 12.6.8 and 12.7.
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"

namespace rocemu::cm {

struct Rep {
    static constexpr Attribute kAttribute = Attribute::Rep;
    static constexpr size_t kPrivateDataSize = 196;

    uint32_t local_comm_id = 0;
    uint32_t remote_comm_id = 0;
    uint32_t local_qkey = 0;
    uint32_t local_qpn = 0;     // 24 bits
    uint32_t local_eecn = 0;    // 24 bits
    uint32_t starting_psn = 0;  // 24 bits
    uint32_t vendor_id = 0;     // 24 bits, one byte behind each of the three numbers above
    uint8_t responder_resources = 0;
    uint8_t initiator_depth = 0;
    uint8_t target_ack_delay = 0;   // 5 bits, 4.096 us * 2^n
    uint8_t failover_accepted = 0;  // 2 bits: 0 accepted, 1 no alternate paths here, 2 refused
    bool end_to_end_flow_control = false;
    uint8_t rnr_retry_count = 0;  // 3 bits
    bool srq = false;
    uint64_t local_ca_guid = 0;
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Rep parse(const Mad& mad);
    void write(Mad& mad) const;
    bool operator==(const Rep&) const = default;
};

}  // namespace rocemu::cm
