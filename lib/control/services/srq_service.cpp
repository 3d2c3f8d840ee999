// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues. An SRQ lives on one shard, and its QPs with it. Read IBTA volume 1, 10.2.9 and the
// ibv_create_srq and ibv_modify_srq man pages.
#include "control/services/srq_service.h"

#include <bit>
#include <cerrno>

#include "control/services/services.h"
#include "control/services/xrc_service.h"

namespace rocemu::control {
namespace {

// 0 or errno; the block, and its queue as the reply tells it.
int make_queue(Session& session, uint32_t max_wr, uint32_t max_sge, QueueBlock& block, abi::QueueRef& ref) {
    const uint32_t stride = abi::rq_stride(max_sge);
    const int error = session.arena->allocate(queue_bytes(max_wr, stride), block);
    ref = {block.region, max_wr, stride, 0, block.offset};
    return error;
}

void resize(Call& call, const abi::ModifySrqRequest& request, SrqObject& srq) {
    Session& session = *call.session;
    struct Change {
        QueueBlock block;
        abi::ModifySrqReply reply;
        int error = 0;
    };
    auto change = std::make_shared<Change>();
    change->reply.max_wr = std::bit_ceil(request.max_wr);
    if (const int error = make_queue(session, change->reply.max_wr, srq.max_sge, change->block, change->reply.queue))
        return call.reply.fail(error);
    call.control.call(
        call.session, srq.shard,
        [change, request](engine::Shard& shard) {
            const abi::QueueRef& q = change->reply.queue;
            change->error = shard.resize_srq(request.srq, view_of(change->block.address, q.entries, q.stride));
            if (change->error == 0 && (request.mask & srq_attr_mask::kLimit))
                shard.set_srq_limit(request.srq, request.limit);
            return true;
        },
        [change, session = call.session, id = request.srq, reply = call.reply]() mutable {
            const auto it = session->srqs.find(id);
            if (it == session->srqs.end()) {  // destroyed meanwhile
                session->arena->free(change->block);
                return reply.fail(EINVAL);
            }
            if (change->error == 0) std::swap(it->second.block, change->block);
            if (change->error == 0) it->second.max_wr = change->reply.max_wr;
            session->arena->free(change->block);
            if (change->error != 0) return reply.fail(change->error);
            reply_with_queue(*session, it->second.block, change->reply, reply);
        });
}

// Of an XRC SRQ: its domain and CQ, on the domain's shard. False: they do not fit together.
bool join_domain(Session& session, const abi::CreateSrqRequest& request, SrqObject& srq, engine::SrqSetup& setup) {
    const auto xrcd = session.xrcds.find(request.xrcd);
    const auto cq = session.cqs.find(request.cq);
    if (xrcd == session.xrcds.end() || cq == session.cqs.end() || xrcd->second.context != srq.context ||
        cq->second.context != srq.context)
        return false;
    srq.xrcd = request.xrcd;
    srq.cq = request.cq;
    srq.domain = xrcd->second.domain;
    srq.shard = srq.domain->shard;
    setup.xrcd = srq.domain->id;
    setup.cq = srq.cq;
    setup.pd = srq.pd;
    return true;
}

void count_users(Session& session, const SrqObject& srq, int change) {
    if (const auto pd = session.pds.find(srq.pd); pd != session.pds.end()) pd->second.users += change;
    if (srq.domain == nullptr) return;
    if (const auto xrcd = session.xrcds.find(srq.xrcd); xrcd != session.xrcds.end()) xrcd->second.users += change;
    if (const auto cq = session.cqs.find(srq.cq); cq != session.cqs.end()) cq->second.users += change;
    srq.domain->objects += change;
}

}  // namespace

void handle(Call& call, const abi::CreateSrqRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto& limits = control.config.limits;
    const auto pd = session.pds.find(request.pd);
    if (pd == session.pds.end() || request.max_wr == 0 || request.max_wr > limits.max_srq_wr ||
        request.max_sge > limits.max_sge)
        return call.reply.fail(EINVAL);
    if (session.srqs.size() >= static_cast<size_t>(limits.max_srq)) return call.reply.fail(ENOMEM);
    SrqObject srq;
    engine::SrqSetup setup;
    srq.context = pd->second.context;
    srq.pd = request.pd;
    srq.cookie = request.cookie;
    srq.shard = control.qpns.least_loaded();
    if (request.xrcd != abi::kNoXrcd && !join_domain(session, request, srq, setup)) return call.reply.fail(EINVAL);
    const auto id = control.srq_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    srq.max_wr = std::bit_ceil(request.max_wr);
    srq.max_sge = std::max(request.max_sge, 1u);
    abi::CreateSrqReply reply;
    if (const int error = make_queue(session, srq.max_wr, srq.max_sge, srq.block, reply.queue)) {
        control.srq_ids.give_back(*id);
        return call.reply.fail(error);
    }
    count_users(session, srq, 1);
    session.srqs.emplace(*id, srq);
    reply.srq = *id;
    reply.max_wr = srq.max_wr;
    reply.max_sge = srq.max_sge;

    setup.id = *id;
    setup.session = session.id;
    setup.queue = view_of(srq.block.address, reply.queue.entries, reply.queue.stride);
    setup.max_sge = srq.max_sge;
    setup.cookie = request.cookie;
    setup.context = srq.context;
    control.call(
        call.session, srq.shard,
        [setup, limit = request.limit](engine::Shard& shard) {
            shard.create_srq(setup);
            if (limit != 0) shard.set_srq_limit(setup.id, limit);
            return true;
        },
        [reply, block = srq.block, session = call.session, replier = call.reply] {
            reply_with_queue(*session, block, reply, replier);
        });
}

void handle(Call& call, const abi::ModifySrqRequest& request) {
    const auto it = call.session->srqs.find(request.srq);
    constexpr uint32_t kKnown = srq_attr_mask::kMaxWr | srq_attr_mask::kLimit;
    if (it == call.session->srqs.end() || (request.mask & ~kKnown)) return call.reply.fail(EINVAL);
    SrqObject& srq = it->second;
    const bool resizes = (request.mask & srq_attr_mask::kMaxWr) != 0;
    if (resizes && (request.max_wr == 0 || request.max_wr > call.control.config.limits.max_srq_wr))
        return call.reply.fail(EINVAL);
    // IBTA 11.2.3.3: a limit that the queue cannot hold is refused.
    const uint32_t holds = resizes ? std::bit_ceil(request.max_wr) : srq.max_wr;
    if ((request.mask & srq_attr_mask::kLimit) && request.limit > holds) return call.reply.fail(EINVAL);
    if (resizes) return resize(call, request, srq);
    call.control.call(
        call.session, srq.shard,
        [request](engine::Shard& shard) {
            if (request.mask & srq_attr_mask::kLimit) shard.set_srq_limit(request.srq, request.limit);
            return true;
        },
        [max_wr = srq.max_wr, reply = call.reply]() mutable {
            abi::ModifySrqReply r;
            r.max_wr = max_wr;
            reply.send(r);
        });
}

void handle(Call& call, const abi::QuerySrqRequest& request) {
    const auto it = call.session->srqs.find(request.srq);
    if (it == call.session->srqs.end()) return call.reply.fail(EINVAL);
    auto reply = std::make_shared<abi::QuerySrqReply>();
    reply->max_wr = it->second.max_wr;
    reply->max_sge = it->second.max_sge;
    call.control.call(
        call.session, it->second.shard,
        [reply, id = request.srq](engine::Shard& shard) {
            reply->limit = shard.srq_limit(id);
            return true;
        },
        [reply, replier = call.reply]() mutable { replier.send(*reply); });
}

void remove_srq(Control& control, const std::shared_ptr<Session>& session, uint32_t id, std::function<void()> done) {
    const auto it = session->srqs.find(id);
    const SrqObject srq = it->second;
    session->srqs.erase(it);
    control.call(
        session, srq.shard,
        [id](engine::Shard& shard) {
            shard.destroy_srq(id);
            return true;
        },
        [&control, session, id, srq, done = std::move(done)] {
            control.srq_ids.give_back(id);
            session->arena->free(srq.block);
            session->forget_events(srq.context, srq.cookie);
            count_users(*session, srq, -1);
            if (srq.domain != nullptr) object_left(control, *srq.domain);
            done();
        });
}

void handle(Call& call, const abi::DestroySrqRequest& request) {
    const auto it = call.session->srqs.find(request.srq);
    if (it == call.session->srqs.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    if (request.unmapped) call.session->arena->retire(it->second.block);
    remove_srq(call.control, call.session, request.srq,
               [reply = call.reply]() mutable { reply.send(abi::DestroySrqReply{}); });
}

}  // namespace rocemu::control
