// SPDX-License-Identifier: BSD-3-Clause
// Field by field. Numbers too large for the core's narrower types become values the core refuses, never valid ones.
#include "control/qp_attr_record.h"

#include <algorithm>
#include <limits>

namespace rocemu::control {
namespace {

template <typename T>
T narrow(uint32_t v) {
    return static_cast<T>(std::min<uint32_t>(v, std::numeric_limits<T>::max()));
}

}  // namespace

transport::QpAttr attr_of(const abi::QpAttrRecord& r) {
    transport::QpAttr a;
    a.state = static_cast<QpState>(narrow<uint8_t>(r.state));
    a.cur_state = static_cast<QpState>(narrow<uint8_t>(r.cur_state));
    a.path_mtu = narrow<uint8_t>(r.path_mtu);
    a.path_mig_state = narrow<uint8_t>(r.path_mig_state);
    a.qkey = r.qkey;
    a.rq_psn = r.rq_psn;
    a.sq_psn = r.sq_psn;
    a.dest_qpn = r.dest_qpn;
    a.access_flags = r.access_flags;
    std::copy(std::begin(r.dgid), std::end(r.dgid), a.ah.dgid.begin());
    a.ah.flow_label = r.flow_label;
    a.ah.sgid_index = r.sgid_index;
    a.ah.hop_limit = r.hop_limit;
    a.ah.traffic_class = r.traffic_class;
    a.ah.sl = r.sl;
    a.ah.is_global = r.is_global;
    a.ah.port_num = r.ah_port;
    a.pkey_index = r.pkey_index;
    a.en_sqd_async_notify = r.en_sqd_async_notify;
    a.sq_draining = r.sq_draining;
    a.max_rd_atomic = r.max_rd_atomic;
    a.max_dest_rd_atomic = r.max_dest_rd_atomic;
    a.min_rnr_timer = r.min_rnr_timer;
    a.port_num = r.port_num;
    a.timeout = r.timeout;
    a.retry_cnt = r.retry_cnt;
    a.rnr_retry = r.rnr_retry;
    a.rate_limit = r.rate_limit;
    return a;
}

abi::QpAttrRecord record_of(const transport::QpAttr& a) {
    abi::QpAttrRecord r;
    r.state = static_cast<uint32_t>(a.state);
    r.cur_state = static_cast<uint32_t>(a.cur_state);
    r.path_mtu = a.path_mtu;
    r.path_mig_state = a.path_mig_state;
    r.qkey = a.qkey;
    r.rq_psn = a.rq_psn;
    r.sq_psn = a.sq_psn;
    r.dest_qpn = a.dest_qpn;
    r.access_flags = a.access_flags;
    std::copy(a.ah.dgid.begin(), a.ah.dgid.end(), r.dgid);
    r.flow_label = a.ah.flow_label;
    r.sgid_index = a.ah.sgid_index;
    r.hop_limit = a.ah.hop_limit;
    r.traffic_class = a.ah.traffic_class;
    r.sl = a.ah.sl;
    r.is_global = a.ah.is_global;
    r.ah_port = a.ah.port_num;
    r.pkey_index = a.pkey_index;
    r.en_sqd_async_notify = a.en_sqd_async_notify;
    r.sq_draining = a.sq_draining;
    r.max_rd_atomic = a.max_rd_atomic;
    r.max_dest_rd_atomic = a.max_dest_rd_atomic;
    r.min_rnr_timer = a.min_rnr_timer;
    r.port_num = a.port_num;
    r.timeout = a.timeout;
    r.retry_cnt = a.retry_cnt;
    r.rnr_retry = a.rnr_retry;
    r.rate_limit = a.rate_limit;
    return r;
}

}  // namespace rocemu::control
