// SPDX-License-Identifier: BSD-3-Clause
// Layout of the REP. Read IBTA volume 1, 12.6.8. Offsets are from the first byte behind the MAD header.
#include "cm/rep.h"

namespace rocemu::cm {

Rep Rep::parse(const Mad& mad) {
    const std::byte* p = body_of(mad);
    Rep m;
    m.local_comm_id = load_be<uint32_t>(p);
    m.remote_comm_id = load_be<uint32_t>(p + 4);
    m.local_qkey = load_be<uint32_t>(p + 8);
    m.local_qpn = load_be24(p + 12);
    m.local_eecn = load_be24(p + 16);
    m.starting_psn = load_be24(p + 20);
    m.vendor_id = uint32_t{static_cast<uint8_t>(p[15])} << 16 | uint32_t{static_cast<uint8_t>(p[19])} << 8 |
                  static_cast<uint8_t>(p[23]);
    m.responder_resources = static_cast<uint8_t>(p[24]);
    m.initiator_depth = static_cast<uint8_t>(p[25]);
    m.target_ack_delay = bits(p[26], 3, 5);
    m.failover_accepted = bits(p[26], 1, 2);
    m.end_to_end_flow_control = bits(p[26], 0, 1);
    m.rnr_retry_count = bits(p[27], 5, 3);
    m.srq = bits(p[27], 4, 1);
    m.local_ca_guid = load_be<uint64_t>(p + 28);
    m.private_data = read_private<kPrivateDataSize>(p + 36);
    return m;
}

void Rep::write(Mad& mad) const {
    std::byte* p = body_of(mad);
    store_be<uint32_t>(p, local_comm_id);
    store_be<uint32_t>(p + 4, remote_comm_id);
    store_be<uint32_t>(p + 8, local_qkey);
    store_be24(p + 12, local_qpn);
    p[15] = static_cast<std::byte>(vendor_id >> 16);
    store_be24(p + 16, local_eecn);
    p[19] = static_cast<std::byte>(vendor_id >> 8);
    store_be24(p + 20, starting_psn);
    p[23] = static_cast<std::byte>(vendor_id);
    p[24] = std::byte{responder_resources};
    p[25] = std::byte{initiator_depth};
    p[26] = field(target_ack_delay, 3, 5) | field(failover_accepted, 1, 2) | field(end_to_end_flow_control, 0, 1);
    p[27] = field(rnr_retry_count, 5, 3) | field(srq, 4, 1);
    store_be<uint64_t>(p + 28, local_ca_guid);
    std::memcpy(p + 36, private_data.data(), kPrivateDataSize);
}

}  // namespace rocemu::cm
