// SPDX-License-Identifier: BSD-3-Clause
// Attributes of a QP in plain numbers: what modify_qp takes and query_qp gives. Masks are qp_attr_mask (the values of
// enum ibv_qp_attr_mask). Address handles stay opaque here: the engine turns them into a header template.
#pragma once

#include <array>
#include <cstdint>

#include "base/verbs_types.h"

namespace rocemu::transport {

struct AddressHandle {
    std::array<uint8_t, 16> dgid{};
    uint32_t flow_label = 0;
    uint8_t sgid_index = 0;
    uint8_t hop_limit = 0;
    uint8_t traffic_class = 0;
    uint8_t sl = 0;
    uint8_t is_global = 0;
    uint8_t port_num = 0;
};

struct QpCaps {
    uint32_t max_send_wr = 0;
    uint32_t max_recv_wr = 0;
    uint32_t max_send_sge = 0;
    uint32_t max_recv_sge = 0;
    uint32_t max_inline_data = 0;  // bytes
};

struct QpAttr {
    QpState state = QpState::Reset;
    QpState cur_state = QpState::Reset;
    uint8_t path_mtu = 0;  // enum ibv_mtu: 1 = 256 … 5 = 4096
    uint8_t path_mig_state = 0;
    uint32_t qkey = 0;
    uint32_t rq_psn = 0;  // 24 bits
    uint32_t sq_psn = 0;
    uint32_t dest_qpn = 0;
    uint32_t access_flags = 0;
    AddressHandle ah;
    uint16_t pkey_index = 0;
    uint8_t en_sqd_async_notify = 0;
    uint8_t sq_draining = 0;
    uint8_t max_rd_atomic = 0;       // READs/atomics this requester may have outstanding
    uint8_t max_dest_rd_atomic = 0;  // responder depth
    uint8_t min_rnr_timer = 0;       // 5 bits, table in rnr_timer.h
    uint8_t port_num = 0;
    uint8_t timeout = 0;    // 4.096 us * 2^n, 0 = never
    uint8_t retry_cnt = 0;  // 3 bits
    uint8_t rnr_retry = 0;  // 3 bits, 7 = for ever
    uint32_t rate_limit = 0;  // kbit/s, 0: none
    uint32_t max_burst = 0;   // bytes; changes with rate_limit
};

}  // namespace rocemu::transport
