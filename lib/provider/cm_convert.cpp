// SPDX-License-Identifier: BSD-3-Clause
// See cm_convert.h. Field by field; what the border does not carry stays zero.
#include "provider/cm_convert.h"

#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace rocemu::provider {
namespace {

constexpr uint8_t kExactly = 2;  // selectors of a path record
constexpr size_t kPathRecordSize = 64;
static_assert(sizeof(ib_path_rec_data::path_rec) == kPathRecordSize);

void ah_to(const abi::CmAddressHandle& in, ib_uverbs_ah_attr& out) {
    std::memcpy(out.grh.dgid, in.dgid, sizeof out.grh.dgid);
    out.grh.flow_label = in.flow_label;
    out.grh.sgid_index = in.sgid_index;
    out.grh.hop_limit = in.hop_limit;
    out.grh.traffic_class = in.traffic_class;
    out.sl = in.sl;
    out.is_global = in.is_global;
    out.port_num = in.port_num;
}

template <typename T>
size_t copy_out(const T& value, void* out, size_t room) {
    if (room < sizeof value) return 0;
    std::memcpy(out, &value, sizeof value);
    return sizeof value;
}

}  // namespace

bool address_from(const void* socket_address, size_t size, abi::CmAddress& out) {
    out = abi::CmAddress{};
    sa_family_t family = AF_UNSPEC;
    if (size < sizeof family) return size == 0;
    std::memcpy(&family, socket_address, sizeof family);
    if (family == AF_UNSPEC) return true;
    if (family == AF_INET && size >= sizeof(sockaddr_in)) {
        sockaddr_in a;
        std::memcpy(&a, socket_address, sizeof a);
        out.address[10] = out.address[11] = 0xff;
        std::memcpy(out.address + 12, &a.sin_addr, 4);
        out.port = ntohs(a.sin_port);
        out.family = 4;
        return true;
    }
    if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
        sockaddr_in6 a;
        std::memcpy(&a, socket_address, sizeof a);
        std::memcpy(out.address, &a.sin6_addr, 16);
        out.port = ntohs(a.sin6_port);
        out.scope_id = a.sin6_scope_id;
        out.family = 6;
        return true;
    }
    return false;
}

size_t address_to(const abi::CmAddress& address, void* out, size_t room) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.address + 12, sizeof v4.sin_addr);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    v6.sin6_scope_id = address.scope_id;
    std::memcpy(&v6.sin6_addr, address.address, sizeof v6.sin6_addr);
    if (address.family == 4) return copy_out(v4, out, room);
    return address.family == 6 ? copy_out(v6, out, room) : 0;
}

size_t ib_address_to(const abi::CmQueryReply& in, bool source, void* out, size_t room) {
    const abi::CmAddress& address = source ? in.source : in.destination;
    if (address.family == 0) return 0;
    sockaddr_ib a{};
    a.sib_family = AF_IB;
    a.sib_pkey = htons(in.pkey);
    std::memcpy(&a.sib_addr, source ? in.sgid : in.dgid, sizeof a.sib_addr);
    store_be<uint64_t>(reinterpret_cast<std::byte*>(&a.sib_sid), uint64_t{in.port_space} << 16 | address.port);
    return copy_out(a, out, room);
}

void conn_param_from(const rdma_ucm_conn_param& in, abi::CmConnParam& out) {
    out.qp_num = in.qp_num;
    out.qkey = in.qkey;
    std::memcpy(out.private_data, in.private_data, sizeof out.private_data);
    out.private_data_len = in.private_data_len;
    out.srq = in.srq;
    out.responder_resources = in.responder_resources;
    out.initiator_depth = in.initiator_depth;
    out.flow_control = in.flow_control;
    out.retry_count = in.retry_count;
    out.rnr_retry_count = in.rnr_retry_count;
    out.valid = in.valid;
}

void conn_param_to(const abi::CmConnParam& in, rdma_ucm_conn_param& out) {
    out.qp_num = in.qp_num;
    out.qkey = in.qkey;
    std::memcpy(out.private_data, in.private_data, sizeof out.private_data);
    out.private_data_len = in.private_data_len;
    out.srq = in.srq;
    out.responder_resources = in.responder_resources;
    out.initiator_depth = in.initiator_depth;
    out.flow_control = in.flow_control;
    out.retry_count = in.retry_count;
    out.rnr_retry_count = in.rnr_retry_count;
}

void ud_param_to(const abi::CmGetEventReply& in, rdma_ucm_ud_param& out) {
    out.qp_num = in.conn.qp_num;
    out.qkey = in.conn.qkey;
    std::memcpy(out.private_data, in.conn.private_data, sizeof out.private_data);
    out.private_data_len = in.conn.private_data_len;
    ah_to(in.ah, out.ah_attr);
}

void path_to(const abi::CmQueryReply& in, ib_user_path_rec& out) {
    std::memcpy(out.dgid, in.dgid, sizeof out.dgid);
    std::memcpy(out.sgid, in.sgid, sizeof out.sgid);
    out.flow_label = htonl(in.flow_label);
    out.reversible = 1;
    out.mtu = in.mtu;
    out.pkey = htons(in.pkey);
    out.hop_limit = in.hop_limit;
    out.traffic_class = in.traffic_class;
    out.numb_path = 1;
    out.mtu_selector = out.rate_selector = out.packet_life_time_selector = kExactly;
    out.rate = in.rate;
    out.packet_life_time = in.packet_lifetime;
}

void path_record_to(const abi::CmQueryReply& in, std::byte* out) {
    constexpr uint32_t kReversibleOnePath = 0x81;
    std::memset(out, 0, kPathRecordSize);
    std::memcpy(out + 8, in.dgid, sizeof in.dgid);
    std::memcpy(out + 24, in.sgid, sizeof in.sgid);
    store_be<uint32_t>(out + 44, in.flow_label << 8 | in.hop_limit);
    store_be<uint32_t>(out + 48, uint32_t{in.traffic_class} << 24 | kReversibleOnePath << 16 | in.pkey);
    out[54] = std::byte{static_cast<uint8_t>(kExactly << 6 | in.mtu)};
    out[55] = std::byte{static_cast<uint8_t>(kExactly << 6 | in.rate)};
    out[56] = std::byte{static_cast<uint8_t>(kExactly << 6 | in.packet_lifetime)};
}

void qp_attr_to(const abi::CmInitQpAttrReply& in, ib_uverbs_qp_attr& out) {
    const abi::QpAttrRecord& a = in.attr;
    out.qp_attr_mask = in.mask;
    out.qp_state = a.state;
    out.cur_qp_state = a.cur_state;
    out.path_mtu = a.path_mtu;
    out.path_mig_state = a.path_mig_state;
    out.qkey = a.qkey;
    out.rq_psn = a.rq_psn;
    out.sq_psn = a.sq_psn;
    out.dest_qp_num = a.dest_qpn;
    out.qp_access_flags = a.access_flags;
    abi::CmAddressHandle ah;
    std::memcpy(ah.dgid, a.dgid, sizeof ah.dgid);
    ah.flow_label = a.flow_label;
    ah.sgid_index = a.sgid_index;
    ah.hop_limit = a.hop_limit;
    ah.traffic_class = a.traffic_class;
    ah.sl = a.sl;
    ah.is_global = a.is_global;
    ah.port_num = a.ah_port;
    ah_to(ah, out.ah_attr);
    out.pkey_index = a.pkey_index;
    out.max_rd_atomic = a.max_rd_atomic;
    out.max_dest_rd_atomic = a.max_dest_rd_atomic;
    out.min_rnr_timer = a.min_rnr_timer;
    out.port_num = a.port_num;
    out.timeout = a.timeout;
    out.retry_cnt = a.retry_cnt;
    out.rnr_retry = a.rnr_retry;
}

}  // namespace rocemu::provider
