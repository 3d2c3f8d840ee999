// SPDX-License-Identifier: BSD-3-Clause
// REQ: request for communication, from the active side. Read IBTA volume 1, 12.6.5 and the field descriptions of 12.7;
// on RoCE the LIDs mean nothing (annexes A16, A17).
#pragma once

#include "cm/mad.h"
#include "cm/private_data.h"
#include "wire/gid.h"

namespace rocemu::cm {

// One of the two paths a REQ describes, as seen by its sender.
struct ReqPath {
    static constexpr size_t kSize = 44;

    uint16_t local_lid = 0;
    uint16_t remote_lid = 0;
    wire::Gid local_gid{};
    wire::Gid remote_gid{};
    uint32_t flow_label = 0;  // 20 bits
    uint8_t packet_rate = 0;  // 6 bits, code of IBTA 12.7
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint8_t sl = 0;  // 4 bits
    bool subnet_local = false;
    uint8_t local_ack_timeout = 0;  // 5 bits, 4.096 us * 2^n

    [[nodiscard]] static ReqPath parse(const std::byte* p);
    void write(std::byte* p) const;
    bool operator==(const ReqPath&) const = default;
};

struct Req {
    static constexpr Attribute kAttribute = Attribute::Req;
    static constexpr size_t kPrivateDataSize = 92;

    uint32_t local_comm_id = 0;
    uint32_t vendor_id = 0;  // 24 bits
    uint64_t service_id = 0;
    uint64_t local_ca_guid = 0;
    uint32_t local_qkey = 0;
    uint32_t local_qpn = 0;                  // 24 bits
    uint8_t responder_resources = 0;         // READs and atomics the sender accepts at once
    uint32_t local_eecn = 0;                 // 24 bits
    uint8_t initiator_depth = 0;             // READs and atomics the sender wants to have under way
    uint32_t remote_eecn = 0;                // 24 bits
    uint8_t remote_cm_response_timeout = 0;  // 5 bits, 4.096 us * 2^n: in which the receiver must answer
    uint8_t transport_service = 0;           // 2 bits: 0 RC, 1 UC, 2 RD, 3 see extended_transport
    bool end_to_end_flow_control = false;
    uint32_t starting_psn = 0;              // 24 bits
    uint8_t local_cm_response_timeout = 0;  // 5 bits: in which the sender will answer
    uint8_t retry_count = 0;                // 3 bits
    uint16_t partition_key = 0xffff;
    uint8_t path_mtu = 0;  // 4 bits: 1 is 256 ... 5 is 4096
    bool rdc_exists = false;
    uint8_t rnr_retry_count = 0;  // 3 bits
    uint8_t max_cm_retries = 0;   // 4 bits
    bool srq = false;
    uint8_t extended_transport = 0;  // 3 bits: 1 is XRC
    ReqPath primary;
    ReqPath alternate;
    bool sap_supported = false;
    PrivateData<kPrivateDataSize> private_data{};

    [[nodiscard]] static Req parse(const Mad& mad);
    void write(Mad& mad) const;
    bool operator==(const Req&) const = default;
};

}  // namespace rocemu::cm
