// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues (ibv_create_srq(3), ibv_modify_srq(3), ibv_post_srq_recv(3)).
#include "provider/srq.h"

#include <new>

#include "base/verbs_types.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

struct XrcPart {
    uint32_t xrcd = abi::kNoXrcd, cq = 0;
};

Srq* make_srq(ibv_pd* pd, const ibv_srq_attr& attr, void* srq_context, XrcPart xrc = {}) {
    Session& session = *Pd::of(pd)->context().session;
    auto* srq = new (std::nothrow) Srq{};
    if (srq == nullptr) return fail_pointer<Srq>(ENOMEM);
    abi::CreateSrqRequest request;
    request.pd = pd->handle;
    request.max_wr = attr.max_wr;
    request.max_sge = attr.max_sge;
    request.xrcd = xrc.xrcd;
    request.cq = xrc.cq;
    request.cookie = srq->cookie = session.new_cookie();
    abi::CreateSrqReply reply;
    bool made = false;
    int rc = session.call_for_queue(request, reply, reply.queue, &made);
    const uint32_t stride = abi::rq_stride(reply.max_sge);
    if (rc == 0 && !set_up(session, reply.queue, reply.max_wr, reply.max_sge, stride, srq->queue)) rc = EPROTO;
    if (rc != 0) {
        if (made) session.undo(abi::DestroySrqRequest{reply.srq, 1});
        delete srq;
        return fail_pointer<Srq>(rc);
    }
    srq->session = &session;
    srq->xrc = xrc.xrcd != abi::kNoXrcd;
    ibv_srq& b = srq->base;
    b.context = pd->context;
    b.srq_context = srq_context;
    b.pd = pd;
    b.handle = reply.srq;
    pthread_mutex_init(&b.mutex, nullptr);
    pthread_cond_init(&b.cond, nullptr);
    Guard guard(session.objects_lock);
    session.srqs.emplace(srq->cookie, srq);
    return srq;
}

}  // namespace

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    Srq& srq = *Srq::of(base);
    if (srq.session->state() == SessionState::Forgotten) {  // as when sends are posted
        *bad_wr = wr;
        return EIO;
    }
    Guard guard(srq.queue.lock);
    WorkQueue& queue = srq.queue;
    uint32_t head = queue.head.load(std::memory_order_relaxed);
    // Partner of the daemon's release: it has read the slots below. An index that cannot be counts as a full queue.
    const int rc = write_receives(
        queue, wr, bad_wr, [&] { return queue.header->consumer.load(std::memory_order_acquire); }, head);
    queue.head.store(head, std::memory_order_relaxed);
    queue.header->producer.store(head, std::memory_order_release);
    return rc;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
    const ibv_srq_type type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
    if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) return fail_pointer<ibv_srq>(EOPNOTSUPP);
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr || attr->pd->context != context)
        return fail_pointer<ibv_srq>(EINVAL);
    XrcPart xrc;
    if (type == IBV_SRQT_XRC) {
        constexpr uint32_t kNeeded = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        if ((attr->comp_mask & kNeeded) != kNeeded || attr->xrcd == nullptr || attr->cq == nullptr ||
            attr->xrcd->context != context || attr->cq->context != context)
            return fail_pointer<ibv_srq>(EINVAL);
        xrc = {Xrcd::of(attr->xrcd)->handle, attr->cq->handle};
    }
    Srq* srq = make_srq(attr->pd, attr->attr, attr->srq_context, xrc);
    if (srq == nullptr) return nullptr;
    attr->attr.max_wr = srq->queue.depth;
    attr->attr.max_sge = srq->queue.max_sge;
    return &srq->base;
}

// What a peer's XRC WRs name. Other SRQs have no number that means anything to a peer.
int get_srq_num(ibv_srq* base, uint32_t* number) {
    if (!Srq::of(base)->xrc) return EOPNOTSUPP;
    *number = base->handle;
    return 0;
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
    if (!ours(pd->context)) return real().ibv_create_srq(pd, attr);
    Srq* srq = make_srq(pd, attr->attr, attr->srq_context);
    if (srq == nullptr) return nullptr;
    attr->attr.max_wr = srq->queue.depth;
    attr->attr.max_sge = srq->queue.max_sge;
    return &srq->base;
}

ROCEMU_EXPORT int ibv_modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
    if (!ours(base->context)) return real().ibv_modify_srq(base, attr, mask);
    Srq& srq = *Srq::of(base);
    abi::ModifySrqRequest request;
    request.srq = base->handle;
    request.mask = static_cast<uint32_t>(mask);
    request.max_wr = attr->max_wr;
    request.limit = attr->srq_limit;
    abi::ModifySrqReply reply;
    if (srq.session->state() == SessionState::Forgotten) return EIO;
    // Nothing is posted while the daemon moves what waits into a new queue.
    Guard guard(srq.queue.lock);
    bool made = false;
    int rc = srq.session->call_for_queue(request, reply, reply.queue, &made);
    if (!made || (rc == 0 && (mask & IBV_SRQ_MAX_WR) == 0)) return rc;
    const uint32_t sges = srq.queue.max_sge;
    if (rc == 0 && !set_up(*srq.session, reply.queue, reply.max_wr, sges, abi::rq_stride(sges), srq.queue)) rc = EPROTO;
    if (rc != 0) srq.session->mark_dead();  // as when a CQ is resized
    return rc;
}

ROCEMU_EXPORT int ibv_query_srq(ibv_srq* base, ibv_srq_attr* attr) {
    if (!ours(base->context)) return real().ibv_query_srq(base, attr);
    abi::QuerySrqReply reply;
    if (const int rc = Srq::of(base)->session->call(abi::QuerySrqRequest{base->handle}, reply); rc != 0) return rc;
    *attr = {reply.max_wr, reply.max_sge, reply.limit};
    return 0;
}

ROCEMU_EXPORT int ibv_destroy_srq(ibv_srq* base) {
    if (!ours(base->context)) return real().ibv_destroy_srq(base);
    Srq* srq = Srq::of(base);
    Session& session = *srq->session;
    if (const int rc = session.undo(abi::DestroySrqRequest{base->handle, 0}); rc != 0) return rc;
    if (session.state() != SessionState::Forgotten) {
        {
            Guard guard(session.objects_lock);
            session.srqs.erase(srq->cookie);
            drop_dead_events(*Context::of(base->context));
        }
        pthread_mutex_lock(&base->mutex);
        while (base->events_completed != srq->async_delivered) pthread_cond_wait(&base->cond, &base->mutex);
        pthread_mutex_unlock(&base->mutex);
    }
    delete srq;
    return 0;
}
