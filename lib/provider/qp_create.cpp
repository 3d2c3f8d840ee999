// SPDX-License-Identifier: BSD-3-Clause
// Creation and destruction of queue pairs.
#include <algorithm>
#include <cstring>
#include <new>

#include "provider/flow.h"
#include "provider/qp.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

// Takes what the reply says into `qp`. 0 or errno.
int adopt(Session& session, const abi::CreateQpReply& reply, Qp& qp) {
    if (reply.slot >= abi::kMaxQpsPerSession || reply.shard >= session.hello().shards) return EPROTO;
    if (!set_up(session, reply.sq, reply.max_send_wr, reply.max_send_sge,
                abi::sq_stride(reply.max_send_sge, reply.max_inline_data), qp.sq) ||
        !set_up(session, reply.rq, reply.max_recv_wr, reply.max_recv_sge, abi::rq_stride(reply.max_recv_sge), qp.rq))
        return EPROTO;
    qp.shard = reply.shard;
    qp.slot = reply.slot;
    qp.max_inline = reply.max_inline_data;
    qp.cap = {reply.max_send_wr, reply.max_recv_wr, reply.max_send_sge, reply.max_recv_sge, reply.max_inline_data};
    return 0;
}

// The locks of its CQs are held.
void leave_slot(Qp& qp) {
    QpSlot& slot = qp.session->qp_slot(qp.slot);
    uint32_t number = qp.base()->qp_num;
    Qp* self = &qp;
    if (slot.qp.compare_exchange_strong(self, nullptr)) slot.qpn.compare_exchange_strong(number, 0);
    Guard sends(qp.sq.lock);
    forget_captured(qp);
}

}  // namespace

Qp* make_qp(ibv_pd* pd, const ibv_qp_init_attr& attr, uint32_t create_flags) {
    // A14: an XRC initiator receives nothing.
    const bool receives = attr.qp_type != IBV_QPT_XRC_SEND;
    if (attr.send_cq == nullptr || attr.send_cq->context != pd->context) return fail_pointer<Qp>(EINVAL);
    if (receives && (attr.recv_cq == nullptr || attr.recv_cq->context != pd->context)) return fail_pointer<Qp>(EINVAL);
    if (attr.srq != nullptr && attr.srq->context != pd->context) return fail_pointer<Qp>(EINVAL);
    Session& session = *Pd::of(pd)->context().session;
    auto* qp = new (std::nothrow) Qp{};
    if (qp == nullptr) return fail_pointer<Qp>(ENOMEM);
    abi::CreateQpRequest request;
    request.pd = pd->handle;
    request.send_cq = attr.send_cq->handle;
    if (receives) request.recv_cq = attr.recv_cq->handle;
    request.type = attr.qp_type;
    request.max_send_wr = attr.cap.max_send_wr;
    request.max_recv_wr = attr.cap.max_recv_wr;
    request.max_send_sge = attr.cap.max_send_sge;
    request.max_recv_sge = attr.cap.max_recv_sge;
    request.max_inline_data = attr.cap.max_inline_data;
    if (attr.srq != nullptr) request.srq = attr.srq->handle;
    request.sq_sig_all = attr.sq_sig_all != 0 ? 1 : 0;
    request.create_flags = create_flags;
    request.cookie = qp->cookie = session.new_cookie();
    abi::CreateQpReply reply;
    bool made = false;
    int rc = session.call_for_queue(request, reply, reply.sq, &made);
    if (rc == 0) rc = adopt(session, reply, *qp);
    if (rc != 0) {
        if (made) session.undo(abi::DestroyQpRequest{reply.qpn, 1, 0});
        delete qp;
        return fail_pointer<Qp>(rc);
    }
    qp->base()->pd = pd;
    introduce(*qp, session, pd->context, attr, reply.qpn);
    set_up_capture(*qp);
    CqPairGuard guard(qp->send_cq(), qp->recv_cq());
    QpSlot& slot = session.qp_slot(reply.slot);
    slot.qp.store(qp, std::memory_order_relaxed);
    slot.qpn.store(reply.qpn, std::memory_order_release);
    return qp;
}

void introduce(Qp& qp, Session& session, ibv_context* context, const ibv_qp_init_attr& attr, uint32_t qpn) {
    qp.session = &session;
    qp.sq_sig_all = attr.sq_sig_all != 0;
    ibv_qp* b = qp.base();
    b->context = context;
    b->qp_context = attr.qp_context;
    b->send_cq = attr.send_cq;
    b->recv_cq = attr.recv_cq;
    b->srq = attr.srq;
    b->handle = qpn;
    b->qp_num = qpn;
    b->state = IBV_QPS_RESET;
    b->qp_type = attr.qp_type;
    pthread_mutex_init(&b->mutex, nullptr);
    pthread_cond_init(&b->cond, nullptr);
    Guard guard(session.objects_lock);
    session.qps.emplace(qp.cookie, &qp);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    constexpr uint32_t kSpread = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | kSpread;
    if ((attr->comp_mask & ~kKnown) != 0) return fail_pointer<ibv_qp>(EOPNOTSUPP);
    if (attr->qp_type == IBV_QPT_XRC_RECV) return create_target(context, *attr);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context)
        return fail_pointer<ibv_qp>(EINVAL);
    const bool flagged = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
    if ((attr->comp_mask & kSpread) != 0) {
        if ((attr->comp_mask & kSpread) != kSpread) return fail_pointer<ibv_qp>(EINVAL);
        if (flagged && attr->create_flags != 0) return fail_pointer<ibv_qp>(EOPNOTSUPP);
        Qp* spread = make_rss_qp(*attr);
        return spread == nullptr ? nullptr : spread->base();
    }
    const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (extended && !wr_api_supports(attr->qp_type, attr->send_ops_flags)) return fail_pointer<ibv_qp>(EOPNOTSUPP);
    // The extended attributes begin like the plain ones, up to sq_sig_all.
    ibv_qp_init_attr plain;
    std::memcpy(&plain, attr, sizeof plain);
    static_assert(offsetof(ibv_qp_init_attr, sq_sig_all) == offsetof(ibv_qp_init_attr_ex, sq_sig_all));
    // ibv_wr_atomic_write has its data in the WQE.
    if (extended && (attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0)
        plain.cap.max_inline_data = std::max(plain.cap.max_inline_data, uint32_t{sizeof(uint64_t)});
    Qp* qp = make_qp(attr->pd, plain, flagged ? attr->create_flags : 0);
    if (qp == nullptr) return nullptr;
    attr->cap = qp->cap;
    if (extended) {
        qp->extended = true;
        set_wr_api(qp->ex);
    }
    return qp->base();
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
    if (!ours(pd->context)) return real().ibv_create_qp(pd, attr);
    Qp* qp = make_qp(pd, *attr);
    if (qp == nullptr) return nullptr;
    attr->cap = qp->cap;
    return qp->base();
}

// Null unless the QP was created for the extended interface (ibv_qp_to_qp_ex(3)).
ROCEMU_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* base) {
    if (!ours(base->context)) return real().ibv_qp_to_qp_ex(base);
    Qp* qp = Qp::of(base);
    return qp->extended ? &qp->ex : nullptr;
}

ROCEMU_EXPORT int ibv_destroy_qp(ibv_qp* base) {
    if (!ours(base->context)) return real().ibv_destroy_qp(base);
    Qp* qp = Qp::of(base);
    if (qp->spread != nullptr) return destroy_rss_qp(qp);
    Session& session = *qp->session;
    // What still waits to be captured is gathered by the daemon, or not sent at all: its queue may be another's as soon as
    // the daemon has destroyed it.
    if (qp->capture.extents != nullptr && session.state() != SessionState::Forgotten) {
        CqPairGuard guard(qp->send_cq(), qp->recv_cq());
        Guard sends(qp->sq.lock);
        stop_waiting_captures(*qp);
    }
    if (const int rc = session.undo(abi::DestroyQpRequest{base->qp_num, 0, qp->cookie}); rc != 0) return rc;
    session.settle();
    if (session.state() != SessionState::Forgotten) {
        {
            // The daemon writes no CQE of it any more; those that are there lead nowhere from now on.
            CqPairGuard guard(qp->send_cq(), qp->recv_cq());
            if (base->qp_type != IBV_QPT_XRC_RECV) leave_slot(*qp);
            qp->strike_out();
            Guard objects(session.objects_lock);
            session.qps.erase(qp->cookie);
            drop_dead_events(*Context::of(base->context));
        }
        pthread_mutex_lock(&base->mutex);
        while (base->events_completed != qp->async_delivered) pthread_cond_wait(&base->cond, &base->mutex);
        pthread_mutex_unlock(&base->mutex);
    }
    delete[] qp->capture.extents;
    delete qp;
    return 0;
}
