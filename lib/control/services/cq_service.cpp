// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: one single-producer ring a shard, in one block of the session's arena.
#include "control/services/cq_service.h"

#include <spdlog/spdlog.h>

#include <bit>
#include <cerrno>

#include "abi/queues.h"
#include "control/services/services.h"

namespace rocemu::control {

void handle(Call& call, const abi::CreateCqRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto& limits = control.config.limits;
    if (!session.contexts.contains(request.context)) return call.reply.fail(EINVAL);
    if (request.cqe == 0 || request.cqe > limits.max_cqe) {
        spdlog::info("{}: create_cq: {} entries, the limit is {}", session.name(), request.cqe, limits.max_cqe);
        return call.reply.fail(EINVAL);
    }
    ChannelObject* channel = nullptr;
    if (request.channel != abi::kNoChannel) {
        const auto it = session.channels.find(request.channel);
        if (it == session.channels.end() || it->second.context != request.context) return call.reply.fail(EINVAL);
        channel = &it->second;
    }
    if (session.cqs.size() >= static_cast<size_t>(limits.max_cq)) return call.reply.fail(ENOMEM);

    const uint32_t entries = std::bit_ceil(request.cqe);
    const uint64_t ring_bytes = sizeof(abi::QueueHeader) + uint64_t{entries} * sizeof(abi::Cqe);
    static_assert((sizeof(abi::QueueHeader) + sizeof(abi::Cqe)) % abi::kCacheLine == 0);
    const uint32_t shards = control.shards.size();
    const auto id = control.cq_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    CqObject cq;
    cq.context = request.context;
    cq.channel = request.channel;
    std::vector<UniqueFd> fds(1);
    abi::CreateCqReply reply;
    if (const int error = session.arena->allocate(ring_bytes * shards, cq.block, fds[0], reply.new_region_bytes)) {
        control.cq_ids.give_back(*id);
        return call.reply.fail(error);
    }
    if (!fds[0]) fds.clear();
    if (channel) ++channel->users;
    reply.cq = *id;
    reply.rings = shards;
    reply.ring_bytes = ring_bytes;
    reply.queue = {cq.block.region, entries, sizeof(abi::Cqe), 0, cq.block.offset};

    engine::CqSetup setup;
    setup.id = *id;
    setup.session = session.id;
    setup.entries = entries;
    setup.channel = request.channel;
    setup.cookie = request.cookie;
    std::byte* base = cq.block.address;
    session.cqs.emplace(*id, std::move(cq));
    control.call_all(
        call.session,
        [setup, base, ring_bytes](engine::Shard& shard, uint32_t index) mutable {
            setup.header = reinterpret_cast<abi::QueueHeader*>(base + index * ring_bytes);
            shard.create_cq(setup);
            return true;
        },
        [reply, replier = call.reply, fds = std::make_shared<std::vector<UniqueFd>>(std::move(fds))]() mutable {
            replier.send(reply, std::move(*fds));
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
            if (const auto channel = session->channels.find(cq.channel); channel != session->channels.end())
                --channel->second.users;
            done();
        });
}

void handle(Call& call, const abi::DestroyCqRequest& request) {
    const auto it = call.session->cqs.find(request.cq);
    if (it == call.session->cqs.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    remove_cq(call.control, call.session, request.cq,
              [reply = call.reply]() mutable { reply.send(abi::DestroyCqReply{}); });
}

}  // namespace rocemu::control
