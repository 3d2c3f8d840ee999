// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: creation, destruction and arming. What libibverbs does around its drivers (initialising mutex and
// condition, the channel's reference count, waiting for acknowledgements) is mirrored here.
#include "provider/cq.h"

#include <bit>
#include <new>

#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

bool view_rings(Session& session, const abi::CreateCqReply& reply, Cq& cq) {
    if (reply.rings == 0 || reply.rings > abi::kMaxShards || reply.queue.stride != sizeof(abi::Cqe)) return false;
    for (uint32_t i = 0; i < reply.rings; ++i) {
        QueueView view;
        if (!session.regions().view(reply.queue, reply.queue.offset + i * reply.ring_bytes, view)) return false;
        if (view.header == nullptr) return false;
        cq.rings[i] = {view.header, reinterpret_cast<abi::Cqe*>(view.slots), view.entries - 1,
                       static_cast<uint32_t>(std::countr_zero(view.entries)), 0};
    }
    cq.ring_count = reply.rings;
    return true;
}

}  // namespace

Cq* make_cq(Context& context, uint32_t cqe, void* cq_context, ibv_comp_channel* channel, uint32_t comp_vector) {
    ibv_context* base = context.base();
    if (cqe == 0 || cqe > context.attributes.max_cqe || comp_vector >= static_cast<uint32_t>(base->num_comp_vectors) ||
        (channel != nullptr && channel->context != base))
        return fail_pointer<Cq>(EINVAL);
    auto* cq = new (std::nothrow) Cq{};
    if (cq == nullptr) return fail_pointer<Cq>(ENOMEM);
    cq->session = context.session;
    abi::CreateCqRequest request;
    request.context = context.id;
    request.cqe = cqe;
    if (channel != nullptr) request.channel = Channel::of(channel)->id;
    request.cookie = cq->cookie = context.session->new_cookie();
    abi::CreateCqReply reply;
    bool made = false;
    int rc = context.session->call_for_queue(request, reply, reply.queue, &made);
    if (rc == 0 && !view_rings(*context.session, reply, *cq)) rc = EPROTO;
    if (rc != 0) {
        if (made) context.session->undo(abi::DestroyCqRequest{reply.cq, 1});
        delete cq;
        return fail_pointer<Cq>(rc);
    }
    ibv_cq* c = cq->base();
    c->context = base;
    c->channel = channel;
    c->cq_context = cq_context;
    c->handle = reply.cq;
    c->cqe = static_cast<int>(reply.queue.entries);
    pthread_mutex_init(&c->mutex, nullptr);
    pthread_cond_init(&c->cond, nullptr);
    if (channel != nullptr) {
        pthread_mutex_lock(&base->mutex);
        ++channel->refcnt;
        pthread_mutex_unlock(&base->mutex);
    }
    Guard guard(context.session->objects_lock);
    context.session->cqs.emplace(cq->cookie, cq);
    return cq;
}

int req_notify_cq(ibv_cq* base, int solicited_only) {
    Cq* cq = Cq::of(base);
    if (cq->session->state() == SessionState::Forgotten) return EIO;
    Guard guard(cq->arming);  // the daemon takes the request along when it moves the rings, but not what comes afterwards
    for (uint32_t i = 0; i < cq->ring_count; ++i) {
        std::atomic<uint32_t>& armed = cq->rings[i].header->armed;
        // IBTA 11.4.2.2: a request for any completion is not weakened by a later one for solicited completions.
        uint32_t expected = abi::kDisarmed;
        if (solicited_only != 0)
            armed.compare_exchange_strong(expected, abi::kArmedSolicited);
        else
            armed.store(abi::kArmedAny);
    }
    cq->armed = true;
    // Partner: the shard's fence between its CQEs and its look at `armed`. CQEs it wrote before that the application
    // finds when it polls once more, as it must.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return 0;
}

// ibv_modify_cq(3): a wish of the application about its own events; the shards look at it when they have one to send.
int modify_cq(ibv_cq* base, ibv_modify_cq_attr* attr) {
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) return EINVAL;
    Cq& cq = *Cq::of(base);
    if (cq.session->state() == SessionState::Forgotten) return EIO;
    Guard guard(cq.arming);  // the rings may be about to move
    const uint32_t limits = attr->moderate.cq_count | uint32_t{attr->moderate.cq_period} << 16;
    for (uint32_t i = 0; i < cq.ring_count; ++i) cq.rings[i].header->moderation.store(limits, std::memory_order_relaxed);
    return 0;
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                                    int comp_vector) {
    if (!ours(context)) return real().ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
    if (cqe < 0 || comp_vector < 0) return fail_pointer<ibv_cq>(EINVAL);
    Cq* cq = make_cq(*Context::of(context), static_cast<uint32_t>(cqe), cq_context, channel,
                     static_cast<uint32_t>(comp_vector));
    return cq != nullptr ? cq->base() : nullptr;
}

ROCEMU_EXPORT int ibv_resize_cq(ibv_cq* base, int cqe) {
    if (!ours(base->context)) return real().ibv_resize_cq(base, cqe);
    if (cqe <= 0) return EINVAL;
    Cq& cq = *Cq::of(base);
    if (cq.session->state() == SessionState::Forgotten) return EIO;
    // Nothing is taken or asked for while the shards move what waits to new rings.
    Guard guard(cq.lock);
    Guard arming(cq.arming);
    abi::ResizeCqReply reply;
    const abi::ResizeCqRequest request{base->handle, static_cast<uint32_t>(cqe)};
    bool made = false;
    int rc = cq.session->call_for_queue(request, reply, reply.queue, &made);
    if (rc == 0 && !view_rings(*cq.session, reply, cq)) rc = EPROTO;
    // The old rings are gone, and the new ones cannot be reached: better a dead device than a CQ that is silent for ever.
    if (rc != 0 && made) cq.session->mark_dead();
    if (rc != 0) return rc;
    base->cqe = static_cast<int>(reply.queue.entries);
    return 0;
}

ROCEMU_EXPORT int ibv_destroy_cq(ibv_cq* base) {
    if (!ours(base->context)) return real().ibv_destroy_cq(base);
    Cq* cq = Cq::of(base);
    Session& session = *cq->session;
    if (const int rc = session.undo(abi::DestroyCqRequest{base->handle, 0}); rc != 0) return rc;
    session.settle();
    if (session.state() != SessionState::Forgotten) {
        {
            Guard guard(session.objects_lock);
            session.cqs.erase(cq->cookie);
            drop_dead_events(*Context::of(base->context));
            if (base->channel != nullptr) drop_dead_events(*Channel::of(base->channel));
        }
        // ibv_get_cq_event(3): events that were returned must be acknowledged before the CQ goes.
        pthread_mutex_lock(&base->mutex);
        while (base->comp_events_completed != cq->comp_delivered || base->async_events_completed != cq->async_delivered)
            pthread_cond_wait(&base->cond, &base->mutex);
        pthread_mutex_unlock(&base->mutex);
    }
    // Last: whoever waits to destroy the channel does so now.
    if (base->channel != nullptr) {
        pthread_mutex_lock(&base->context->mutex);
        --base->channel->refcnt;
        pthread_mutex_unlock(&base->context->mutex);
    }
    delete cq;
    return 0;
}
