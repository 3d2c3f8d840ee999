// SPDX-License-Identifier: BSD-3-Clause
// Layout of the LAP. Read IBTA volume 1, 12.8.1. Offsets are from the first byte behind the MAD header.
#include "cm/lap.h"

namespace rocemu::cm {

Lap Lap::parse(const Mad& mad) {
    const std::byte* p = body_of(mad);
    Lap m;
    m.local_comm_id = load_be<uint32_t>(p);
    m.remote_comm_id = load_be<uint32_t>(p + 4);
    m.remote_qpn = load_be24(p + 12);
    m.remote_cm_response_timeout = bits(p[15], 3, 5);
    m.alternate_local_lid = load_be<uint16_t>(p + 20);
    m.alternate_remote_lid = load_be<uint16_t>(p + 22);
    m.alternate_local_gid = wire::Gid::from_bytes(p + 24);
    m.alternate_remote_gid = wire::Gid::from_bytes(p + 40);
    m.alternate_flow_label = load_be<uint32_t>(p + 56) >> 12;
    m.alternate_traffic_class = static_cast<uint8_t>(p[59]);
    m.alternate_hop_limit = static_cast<uint8_t>(p[60]);
    m.alternate_packet_rate = bits(p[61], 0, 6);
    m.alternate_sl = bits(p[62], 4, 4);
    m.alternate_subnet_local = bits(p[62], 3, 1);
    m.alternate_local_ack_timeout = bits(p[63], 3, 5);
    m.private_data = read_private<kPrivateDataSize>(p + 64);
    return m;
}

void Lap::write(Mad& mad) const {
    std::byte* p = body_of(mad);
    store_be<uint32_t>(p, local_comm_id);
    store_be<uint32_t>(p + 4, remote_comm_id);
    store_be<uint32_t>(p + 8, 0);
    store_be24(p + 12, remote_qpn);
    p[15] = field(remote_cm_response_timeout, 3, 5);
    store_be<uint32_t>(p + 16, 0);
    store_be<uint16_t>(p + 20, alternate_local_lid);
    store_be<uint16_t>(p + 22, alternate_remote_lid);
    alternate_local_gid.write(p + 24);
    alternate_remote_gid.write(p + 40);
    store_be<uint32_t>(p + 56, alternate_flow_label << 12 | alternate_traffic_class);
    p[60] = std::byte{alternate_hop_limit};
    p[61] = field(alternate_packet_rate, 0, 6);
    p[62] = field(alternate_sl, 4, 4) | field(alternate_subnet_local, 3, 1);
    p[63] = field(alternate_local_ack_timeout, 3, 5);
    std::memcpy(p + 64, private_data.data(), kPrivateDataSize);
}

}  // namespace rocemu::cm
