// SPDX-License-Identifier: BSD-3-Clause
// ibv_modify_qp and ibv_query_qp. The transition table is the daemon's; this side keeps qp->state as libibverbs does and
// empties the queues when a QP enters RESET.
#include <cstring>

#include "provider/qp.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

// The queue's lock is held.
void empty(WorkQueue& queue) {
    queue.head.store(0, std::memory_order_relaxed);
    queue.tail.store(0, std::memory_order_relaxed);
    if (queue.header == nullptr) return;
    queue.header->consumer.store(0, std::memory_order_relaxed);
    queue.header->retired.store(0, std::memory_order_relaxed);
    queue.header->producer.store(0, std::memory_order_release);
}

// abi/queues.h: a QP in RESET has empty queues at index 0, and no completion of it is seen any more.
void start_again(Qp& qp) {
    CqPairGuard guard(qp.send_cq(), qp.recv_cq());
    qp.strike_out();
    qp.session->receive_stage().forget_failures(qp.base()->qp_num);
    Guard sends(qp.sq.lock);
    Guard receives(qp.rq.lock);
    forget_captured(qp);
    empty(qp.sq);
    empty(qp.rq);
}

}  // namespace

// The typical size of a packet is not needed: each is counted as long as it is.
int modify_qp_rate_limit(ibv_qp* base, ibv_qp_rate_limit_attr* attr) {
    Qp* qp = Qp::of(base);
    if (qp->spread != nullptr) return EOPNOTSUPP;
    if (attr->comp_mask != 0) return EINVAL;
    abi::ModifyQpRequest request;
    request.qpn = base->qp_num;
    request.mask = IBV_QP_RATE_LIMIT;
    request.attr.rate_limit = attr->rate_limit;
    request.attr.max_burst = attr->max_burst_sz;
    abi::ModifyQpReply reply;
    return qp->session->call(request, reply);
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
    if (!ours(base->context)) return real().ibv_modify_qp(base, attr, mask);
    Qp* qp = Qp::of(base);
    if ((mask & (IBV_QP_CAP | IBV_QP_ALT_PATH)) != 0 || qp->spread != nullptr) return EOPNOTSUPP;
    abi::ModifyQpRequest request;
    request.qpn = base->qp_num;
    request.mask = static_cast<uint32_t>(mask);
    request.attr = record_of(*attr, mask);
    abi::ModifyQpReply reply;
    const int rc = qp->session->call(request, reply);
    if (rc != 0) {
        // A program that cleans up after the death of the device moves its QPs to ERR or RESET first.
        const bool cleaning = (mask & IBV_QP_STATE) != 0 &&
                              (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET);
        if (qp->session->state() != SessionState::Dead || !cleaning) return rc;
    }
    if ((mask & IBV_QP_STATE) != 0) {
        if (attr->qp_state == IBV_QPS_RESET) {
            qp->session->settle();
            start_again(*qp);
        }
        base->state = attr->qp_state;
    }
    return 0;
}

ROCEMU_EXPORT int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
    if (!ours(base->context)) return real().ibv_query_qp(base, attr, mask, init);
    Qp* qp = Qp::of(base);
    if (qp->spread != nullptr) return EOPNOTSUPP;
    abi::QueryQpReply reply;
    if (const int rc = qp->session->call(abi::QueryQpRequest{base->qp_num}, reply); rc != 0) return rc;
    attr_of(reply.attr, qp->cap, *attr);
    *init = {};
    init->qp_context = base->qp_context;
    init->send_cq = base->send_cq;
    init->recv_cq = base->recv_cq;
    init->srq = base->srq;
    init->cap = qp->cap;
    init->qp_type = base->qp_type;
    init->sq_sig_all = qp->sq_sig_all ? 1 : 0;
    if ((mask & IBV_QP_STATE) != 0) base->state = attr->qp_state;
    return 0;
}

ROCEMU_EXPORT int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t flags) {
    if (!ours(qp->context)) return real().ibv_query_qp_data_in_order(qp, opcode, flags);
    return 0;
}

ROCEMU_EXPORT int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
    if (!ours(qp->context)) return real().ibv_query_ece(qp, ece);
    return EOPNOTSUPP;
}

ROCEMU_EXPORT int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
    if (!ours(qp->context)) return real().ibv_set_ece(qp, ece);
    return EOPNOTSUPP;
}
