// SPDX-License-Identifier: BSD-3-Clause
// See side.h: objects and connection. Posting and checking: side_work.cpp.
#include "side.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace interop {

namespace {

constexpr uint32_t kQkey = 0x1234567;
constexpr uint32_t kDepth = 16;

ibv_mtu mtu_of(uint32_t bytes) {
    int m = IBV_MTU_256;
    while (m < IBV_MTU_4096 && (128u << m) < bytes) ++m;
    return static_cast<ibv_mtu>(m);
}

[[noreturn]] void lacking(const char* what) {
    throw NotSupported(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

Side::Side(Device& device, const Case& c, bool requester)
    : device_(device), case_(c), requester_(requester), arena_(c) {}

Side::~Side() {
    // Windows first: a bound one refers to its queue pair, and Linux's waits for it, for 50 s.
    for (ibv_mw* w : windows_)
        if (w != nullptr) ibv_dealloc_mw(w);
    if (qp_ != nullptr) ibv_destroy_qp(qp_);
    if (ah_ != nullptr) ibv_destroy_ah(ah_);
    if (srq_ != nullptr) ibv_destroy_srq(srq_);
    if (cq_ != nullptr) ibv_destroy_cq(cq_);
    if (mr_ != nullptr) ibv_dereg_mr(mr_);
    if (other_mr_ != nullptr) ibv_dereg_mr(other_mr_);
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
    if (other_pd_ != nullptr) ibv_dealloc_pd(other_pd_);
}

void Side::must(bool ok, const char* what) const {
    if (!ok)
        throw Failure(std::string(requester_ ? "requester: " : "responder: ") + what + ": " + std::strerror(errno));
}

int Side::rights() const {
    if (case_.atomic()) return IBV_ACCESS_REMOTE_ATOMIC;
    if (case_.work == Work::Read) return IBV_ACCESS_REMOTE_READ;
    return IBV_ACCESS_REMOTE_WRITE;
}

ibv_mr* Side::register_memory(ibv_pd* pd, int access) {
    ibv_mr* mr = ibv_reg_mr(pd, arena_.base(), arena_.size(), access | IBV_ACCESS_LOCAL_WRITE);
    if (mr == nullptr) lacking("ibv_reg_mr");
    return mr;
}

Announcement Side::open() {
    Announcement a;
    try {
        gid_index_ = device_.gid_index(case_.ip);
        if (gid_index_ < 0) throw NotSupported("no RoCE v2 address of IPv" + std::to_string(case_.ip));
        if (mtu_of(case_.mtu) > device_.port.active_mtu) throw NotSupported("active MTU is smaller");
        if ((pd_ = ibv_alloc_pd(device_.context)) == nullptr) lacking("ibv_alloc_pd");
        if ((cq_ = ibv_create_cq(device_.context, 4 * kDepth, nullptr, nullptr, 0)) == nullptr)
            lacking("ibv_create_cq");
        const bool bind = case_.work == Work::SendInvalidate;
        mr_ = register_memory(pd_, requester_ ? 0 : rights() | (bind ? IBV_ACCESS_MW_BIND : 0));
        if (!requester_ && case_.fault == Fault::OtherPd) {
            if ((other_pd_ = ibv_alloc_pd(device_.context)) == nullptr) lacking("ibv_alloc_pd");
            other_mr_ = register_memory(other_pd_, rights());
        }
        if (!requester_ && case_.fault == Fault::RegionAccess) other_mr_ = register_memory(pd_, 0);
        if (!requester_ && case_.srq) {
            ibv_srq_init_attr s{};
            s.attr.max_wr = kDepth;
            s.attr.max_sge = 1;
            if ((srq_ = ibv_create_srq(pd_, &s)) == nullptr) lacking("ibv_create_srq");
        }
        create_qp(requester_ || case_.fault == Fault::QpAccess ? 0 : rights());
        if (!requester_ && bind) {
            for (uint32_t m = 0; m < case_.messages(); ++m)
                if ((windows_[m] = ibv_alloc_mw(pd_, IBV_MW_TYPE_2)) == nullptr) lacking("ibv_alloc_mw");
        }
        a.possible = 1;
    } catch (const NotSupported& e) {
        std::snprintf(a.why, sizeof a.why, "%s", e.what());
        return a;
    }
    must(ibv_query_gid(device_.context, 1, gid_index_, &a.gid) == 0, "ibv_query_gid");
    a.qpn = qp_->qp_num;
    // Close to the end of the number space: it wraps inside the larger cases.
    a.psn = requester_ ? 0xfffff9 : 0x000100;
    a.address = reinterpret_cast<uintptr_t>(arena_.payload(0));
    a.region_end = reinterpret_cast<uintptr_t>(arena_.base()) + arena_.size();
    a.rkey = mr_->rkey;
    if (other_mr_ != nullptr) a.other_rkey = other_mr_->rkey;
    if (requester_ != (case_.work == Work::Read || case_.atomic())) arena_.fill_source();
    return a;
}

void Side::create_qp(int access) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.srq = srq_;
    init.cap = {kDepth, srq_ != nullptr ? 0 : kDepth, 1, 1, 0};
    init.qp_type = case_.service == Service::Rc ? IBV_QPT_RC : case_.service == Service::Uc ? IBV_QPT_UC : IBV_QPT_UD;
    if ((qp_ = ibv_create_qp(pd_, &init)) == nullptr) lacking("ibv_create_qp");
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qkey = kQkey;
    a.qp_access_flags = static_cast<unsigned>(access);
    if (ibv_modify_qp(qp_, &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                          (case_.service == Service::Ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) != 0)
        lacking("INIT");
}

void Side::connect(const Announcement& peer) {
    peer_ = peer;
    ibv_ah_attr ah{};
    ah.is_global = 1;
    ah.port_num = 1;
    ah.grh.dgid = peer.gid;
    ah.grh.sgid_index = static_cast<uint8_t>(gid_index_);
    ah.grh.hop_limit = 64;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.ah_attr = ah;
    a.path_mtu = mtu_of(case_.mtu);
    a.dest_qp_num = peer.qpn;
    a.rq_psn = peer.psn;
    a.max_dest_rd_atomic = 16;
    a.min_rnr_timer = 12;  // 0.64 ms
    int mask = IBV_QP_STATE;
    if (case_.service != Service::Ud) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (case_.service == Service::Rc) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    must(ibv_modify_qp(qp_, &a, mask) == 0, "RTR");
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = requester_ ? 0xfffff9 : 0x000100;
    // Where nobody answers: 7 retries are for ever at Linux's requester.
    a.timeout = static_cast<uint8_t>(case_.timeout);
    a.retry_cnt = case_.fault == Fault::Silent ? 3 : 7;
    a.rnr_retry = static_cast<uint8_t>(case_.rnr_retry);
    a.max_rd_atomic = 16;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (case_.service == Service::Rc)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    must(ibv_modify_qp(qp_, &a, mask) == 0, "RTS");
    if (case_.service == Service::Ud && requester_) must((ah_ = ibv_create_ah(pd_, &ah)) != nullptr, "ibv_create_ah");
}

std::string Side::state() {
    if (qp_ == nullptr) return "gone";
    ibv_qp_attr a{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(qp_, &a, IBV_QP_STATE, &init) != 0) return "unknown";
    static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return a.qp_state <= IBV_QPS_ERR ? kNames[a.qp_state] : "unknown";
}

std::string Side::outcome() {
    outcome_.add_events(device_.take_events());
    return outcome_.text(state());
}

}  // namespace interop
