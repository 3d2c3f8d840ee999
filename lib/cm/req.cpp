// SPDX-License-Identifier: BSD-3-Clause
// Layout of the REQ. Read IBTA volume 1, 12.6.5. Offsets are from the first byte behind the MAD header.
#include "cm/req.h"

namespace rocemu::cm {

ReqPath ReqPath::parse(const std::byte* p) {
    ReqPath path;
    path.local_lid = load_be<uint16_t>(p);
    path.remote_lid = load_be<uint16_t>(p + 2);
    path.local_gid = wire::Gid::from_bytes(p + 4);
    path.remote_gid = wire::Gid::from_bytes(p + 20);
    const auto word = load_be<uint32_t>(p + 36);
    path.flow_label = word >> 12;
    path.packet_rate = word & 0x3f;
    path.traffic_class = static_cast<uint8_t>(p[40]);
    path.hop_limit = static_cast<uint8_t>(p[41]);
    path.sl = bits(p[42], 4, 4);
    path.subnet_local = bits(p[42], 3, 1);
    path.local_ack_timeout = bits(p[43], 3, 5);
    return path;
}

void ReqPath::write(std::byte* p) const {
    store_be<uint16_t>(p, local_lid);
    store_be<uint16_t>(p + 2, remote_lid);
    local_gid.write(p + 4);
    remote_gid.write(p + 20);
    store_be<uint32_t>(p + 36, flow_label << 12 | (packet_rate & 0x3fu));
    p[40] = std::byte{traffic_class};
    p[41] = std::byte{hop_limit};
    p[42] = field(sl, 4, 4) | field(subnet_local, 3, 1);
    p[43] = field(local_ack_timeout, 3, 5);
}

Req Req::parse(const Mad& mad) {
    const std::byte* p = body_of(mad);
    Req m;
    m.local_comm_id = load_be<uint32_t>(p);
    m.vendor_id = load_be24(p + 5);
    m.service_id = load_be<uint64_t>(p + 8);
    m.local_ca_guid = load_be<uint64_t>(p + 16);
    m.local_qkey = load_be<uint32_t>(p + 28);
    m.local_qpn = load_be24(p + 32);
    m.responder_resources = static_cast<uint8_t>(p[35]);
    m.local_eecn = load_be24(p + 36);
    m.initiator_depth = static_cast<uint8_t>(p[39]);
    m.remote_eecn = load_be24(p + 40);
    m.remote_cm_response_timeout = bits(p[43], 3, 5);
    m.transport_service = bits(p[43], 1, 2);
    m.end_to_end_flow_control = bits(p[43], 0, 1);
    m.starting_psn = load_be24(p + 44);
    m.local_cm_response_timeout = bits(p[47], 3, 5);
    m.retry_count = bits(p[47], 0, 3);
    m.partition_key = load_be<uint16_t>(p + 48);
    m.path_mtu = bits(p[50], 4, 4);
    m.rdc_exists = bits(p[50], 3, 1);
    m.rnr_retry_count = bits(p[50], 0, 3);
    m.max_cm_retries = bits(p[51], 4, 4);
    m.srq = bits(p[51], 3, 1);
    m.extended_transport = bits(p[51], 0, 3);
    m.primary = ReqPath::parse(p + 52);
    m.alternate = ReqPath::parse(p + 96);
    m.sap_supported = bits(p[139], 2, 1);
    m.private_data = read_private<kPrivateDataSize>(p + 140);
    return m;
}

void Req::write(Mad& mad) const {
    std::byte* p = body_of(mad);
    store_be<uint32_t>(p, local_comm_id);
    p[4] = std::byte{0};
    store_be24(p + 5, vendor_id);
    store_be<uint64_t>(p + 8, service_id);
    store_be<uint64_t>(p + 16, local_ca_guid);
    store_be<uint32_t>(p + 24, 0);
    store_be<uint32_t>(p + 28, local_qkey);
    store_be24(p + 32, local_qpn);
    p[35] = std::byte{responder_resources};
    store_be24(p + 36, local_eecn);
    p[39] = std::byte{initiator_depth};
    store_be24(p + 40, remote_eecn);
    p[43] =
        field(remote_cm_response_timeout, 3, 5) | field(transport_service, 1, 2) | field(end_to_end_flow_control, 0, 1);
    store_be24(p + 44, starting_psn);
    p[47] = field(local_cm_response_timeout, 3, 5) | field(retry_count, 0, 3);
    store_be<uint16_t>(p + 48, partition_key);
    p[50] = field(path_mtu, 4, 4) | field(rdc_exists, 3, 1) | field(rnr_retry_count, 0, 3);
    p[51] = field(max_cm_retries, 4, 4) | field(srq, 3, 1) | field(extended_transport, 0, 3);
    primary.write(p + 52);
    alternate.write(p + 96);
    p[139] |= field(sap_supported, 2, 1);
    std::memcpy(p + 140, private_data.data(), kPrivateDataSize);
}

}  // namespace rocemu::cm
