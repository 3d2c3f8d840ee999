// SPDX-License-Identifier: BSD-3-Clause
// ibv_qp_attr to the record that travels to the daemon, and back. Fields outside the mask are sent as zero: what the
// application left there uninitialised is nobody's affair.
#include <cstring>

#include "base/verbs_types.h"
#include "provider/qp.h"

namespace rocemu::provider {
namespace {

void put_address(const ibv_ah_attr& ah, abi::QpAttrRecord& r) {
    std::memcpy(r.dgid, ah.grh.dgid.raw, sizeof r.dgid);
    r.flow_label = ah.grh.flow_label;
    r.sgid_index = ah.grh.sgid_index;
    r.hop_limit = ah.grh.hop_limit;
    r.traffic_class = ah.grh.traffic_class;
    r.sl = ah.sl;
    r.is_global = ah.is_global;
    r.ah_port = ah.port_num;
}

void get_address(const abi::QpAttrRecord& r, ibv_ah_attr& ah) {
    std::memcpy(ah.grh.dgid.raw, r.dgid, sizeof r.dgid);
    ah.grh.flow_label = r.flow_label;
    ah.grh.sgid_index = r.sgid_index;
    ah.grh.hop_limit = r.hop_limit;
    ah.grh.traffic_class = r.traffic_class;
    ah.sl = r.sl;
    ah.is_global = r.is_global;
    ah.port_num = r.ah_port;
}

}  // namespace

abi::QpAttrRecord record_of(const ibv_qp_attr& a, int mask) {
    abi::QpAttrRecord r;
    const auto has = [mask](int bit) { return (mask & bit) != 0; };
    if (has(IBV_QP_STATE)) r.state = a.qp_state;
    if (has(IBV_QP_CUR_STATE)) r.cur_state = a.cur_qp_state;
    if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) r.en_sqd_async_notify = a.en_sqd_async_notify;
    if (has(IBV_QP_ACCESS_FLAGS)) r.access_flags = a.qp_access_flags;
    if (has(IBV_QP_PKEY_INDEX)) r.pkey_index = a.pkey_index;
    if (has(IBV_QP_PORT)) r.port_num = a.port_num;
    if (has(IBV_QP_QKEY)) r.qkey = a.qkey;
    if (has(IBV_QP_AV)) put_address(a.ah_attr, r);
    if (has(IBV_QP_PATH_MTU)) r.path_mtu = a.path_mtu;
    if (has(IBV_QP_TIMEOUT)) r.timeout = a.timeout;
    if (has(IBV_QP_RETRY_CNT)) r.retry_cnt = a.retry_cnt;
    if (has(IBV_QP_RNR_RETRY)) r.rnr_retry = a.rnr_retry;
    if (has(IBV_QP_RQ_PSN)) r.rq_psn = a.rq_psn;
    if (has(IBV_QP_MAX_QP_RD_ATOMIC)) r.max_rd_atomic = a.max_rd_atomic;
    if (has(IBV_QP_MIN_RNR_TIMER)) r.min_rnr_timer = a.min_rnr_timer;
    if (has(IBV_QP_SQ_PSN)) r.sq_psn = a.sq_psn;
    if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) r.max_dest_rd_atomic = a.max_dest_rd_atomic;
    if (has(IBV_QP_PATH_MIG_STATE)) r.path_mig_state = a.path_mig_state;
    if (has(IBV_QP_DEST_QPN)) r.dest_qpn = a.dest_qp_num;
    if (has(IBV_QP_RATE_LIMIT)) r.rate_limit = a.rate_limit;
    return r;
}

void attr_of(const abi::QpAttrRecord& r, const ibv_qp_cap& cap, ibv_qp_attr& a) {
    a = {};
    a.qp_state = static_cast<ibv_qp_state>(r.state);
    a.cur_qp_state = static_cast<ibv_qp_state>(r.cur_state);
    a.path_mtu = static_cast<ibv_mtu>(r.path_mtu);
    a.path_mig_state = static_cast<ibv_mig_state>(r.path_mig_state);
    a.qkey = r.qkey;
    a.rq_psn = r.rq_psn;
    a.sq_psn = r.sq_psn;
    a.dest_qp_num = r.dest_qpn;
    a.qp_access_flags = r.access_flags;
    a.cap = cap;
    get_address(r, a.ah_attr);
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
}

}  // namespace rocemu::provider
