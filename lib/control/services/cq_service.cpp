// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: one single-producer ring a shard, in one block of the session's arena.
#include "control/services/cq_service.h"

#include <bit>
#include <cerrno>

#include "abi/queues.h"
#include "control/log.h"
#include "control/services/services.h"

namespace rocemu::control {
namespace {

// The rings of a CQ, one a shard, in one block; the reply as far as it tells of them. 0 or errno.
int make_rings(Control& control, Session& session, uint32_t cqe, QueueBlock& block, abi::CreateCqReply& reply) {
    static_assert((sizeof(abi::QueueHeader) + sizeof(abi::Cqe)) % abi::kCacheLine == 0);
    const uint32_t entries = std::bit_ceil(cqe);
    const uint32_t shards = control.shards.size();
    reply.rings = shards;
    reply.ring_bytes = sizeof(abi::QueueHeader) + uint64_t{entries} * sizeof(abi::Cqe);
    const int error = session.arena->allocate(reply.ring_bytes * shards, block);
    reply.queue = {block.region, entries, sizeof(abi::Cqe), 0, block.offset};
    return error;
}

abi::QueueHeader* ring_of(const QueueBlock& block, uint64_t ring_bytes, uint32_t index) {
    return reinterpret_cast<abi::QueueHeader*>(block.address + index * ring_bytes);
}

}  // namespace

void handle(Call& call, const abi::CreateCqRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto& limits = control.config.limits;
    if (!session.contexts.contains(request.context)) return call.reply.fail(EINVAL);
    if (request.cqe == 0 || request.cqe > limits.max_cqe) {
        log::info("{}: create_cq: {} entries, the limit is {}", session.name(), request.cqe, limits.max_cqe);
        return call.reply.fail(EINVAL);
    }
    ChannelObject* channel = nullptr;
    if (request.channel != abi::kNoChannel) {
        const auto it = session.channels.find(request.channel);
        if (it == session.channels.end() || it->second.context != request.context) return call.reply.fail(EINVAL);
        channel = &it->second;
    }
    if (session.cqs.size() >= static_cast<size_t>(limits.max_cq)) return call.reply.fail(ENOMEM);

    const auto id = control.cq_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    CqObject cq;
    cq.context = request.context;
    cq.channel = request.channel;
    cq.cookie = request.cookie;
    abi::CreateCqReply reply;
    if (const int error = make_rings(control, session, request.cqe, cq.block, reply)) {
        control.cq_ids.give_back(*id);
        return call.reply.fail(error);
    }
    if (channel) ++channel->users;
    reply.cq = *id;

    engine::CqSetup setup;
    setup.id = *id;
    setup.session = session.id;
    setup.entries = reply.queue.entries;
    setup.channel = request.channel;
    setup.cookie = request.cookie;
    cq.ring_bytes = reply.ring_bytes;
    const QueueBlock block = cq.block;
    session.cqs.emplace(*id, std::move(cq));
    control.call_all(
        call.session,
        [setup, block, ring_bytes = reply.ring_bytes](engine::Shard& shard, uint32_t index) mutable {
            setup.header = ring_of(block, ring_bytes, index);
            shard.create_cq(setup);
            return true;
        },
        [reply, block, session = call.session, replier = call.reply] { reply_with_queue(*session, block, reply, replier); });
}

namespace {

// CQEs of a ring that nobody has taken. The application may have written nonsense: it gets a nonsense answer.
uint32_t waiting_in(const abi::QueueHeader& header) {
    return header.producer.load(std::memory_order_acquire) - header.consumer.load(std::memory_order_acquire);
}

void move_rings(Control& control, const std::shared_ptr<Session>& session, const abi::ResizeCqRequest& request,
                Replier replier) {
    const auto it = session->cqs.find(request.cq);
    if (it == session->cqs.end()) return replier.fail(EINVAL);
    CqObject& cq = it->second;
    // IBTA 11.2.8.4: not smaller than what waits.
    for (uint32_t i = 0; i < control.shards.size(); ++i)
        if (waiting_in(*ring_of(cq.block, cq.ring_bytes, i)) > request.cqe) return replier.fail(EINVAL);
    QueueBlock block;
    abi::ResizeCqReply reply;
    if (const int error = make_rings(control, *session, request.cqe, block, reply)) return replier.fail(error);
    reply.cq = request.cq;
    // What control knows changes at once, so that a second request finds it; the old rings are used until all have
    // moved.
    std::swap(cq.block, block);
    cq.ring_bytes = reply.ring_bytes;
    control.call_all(
        session,
        [fresh = cq.block, id = request.cq, entries = reply.queue.entries, ring_bytes = reply.ring_bytes](
            engine::Shard& shard, uint32_t index) {
            shard.resize_cq(id, ring_of(fresh, ring_bytes, index), entries);
            return true;
        },
        [old = block, fresh = cq.block, reply, session, replier] {
            session->arena->free(old);
            reply_with_queue(*session, fresh, reply, replier);
        });
}

}  // namespace

void handle(Call& call, const abi::ResizeCqRequest& request) {
    if (!call.session->cqs.contains(request.cq) || request.cqe == 0 || request.cqe > call.control.config.limits.max_cqe)
        return call.reply.fail(EINVAL);
    // A turn of every shard first: what a doorbell rung before this call completes is in the rings when they are
    // counted.
    call.control.call_all(
        call.session, [](engine::Shard&, uint32_t) { return true; },
        [&control = call.control, session = call.session, request, replier = call.reply] {
            move_rings(control, session, request, replier);
        });
}

void remove_cq(Control& control, const std::shared_ptr<Session>& session, uint32_t id, std::function<void()> done) {
    const auto it = session->cqs.find(id);
    const CqObject cq = it->second;
    session->cqs.erase(it);
    control.call_all(
        session,
        [id](engine::Shard& shard, uint32_t) {
            shard.destroy_cq(id);
            return true;
        },
        [&control, session, id, cq, done = std::move(done)] {
            control.cq_ids.give_back(id);
            session->arena->free(cq.block);
            session->forget_events(cq.context, cq.cookie);
            if (const auto channel = session->channels.find(cq.channel); channel != session->channels.end()) {
                --channel->second.users;
                channel->second.events->forget(cq.cookie);
            }
            done();
        });
}

void handle(Call& call, const abi::DestroyCqRequest& request) {
    const auto it = call.session->cqs.find(request.cq);
    if (it == call.session->cqs.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    if (request.unmapped) call.session->arena->retire(it->second.block);
    remove_cq(call.control, call.session, request.cq,
              [reply = call.reply]() mutable { reply.send(abi::DestroyCqReply{}); });
}

}  // namespace rocemu::control
