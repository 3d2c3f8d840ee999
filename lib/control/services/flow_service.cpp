// SPDX-License-Identifier: BSD-3-Clause
// Flow rules, and the QPs that spread what a rule steers to them over several receive queues by a hash. Such a QP has no
// queue and no state of its own, it is known here only. A receive queue made for it (ibv_create_wq) is a raw packet QP
// that never sends. Read the ibv_create_flow, ibv_create_rwq_ind_table and ibv_create_qp_ex man pages.
#include "control/services/flow_service.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>

#include "control/services/services.h"
#include "engine/flows.h"

namespace rocemu::control {
namespace {

// enum ibv_flow_attr_type. Sniffing all of a port is the daemon's to do (`rocemu capture`).
std::optional<engine::FlowKind> kind_of(uint32_t type) {
    switch (type) {
        case 0:
            return engine::FlowKind::Normal;
        case 1:
            return engine::FlowKind::Default;
        case 2:
            return engine::FlowKind::DefaultGroup;
        default:
            return std::nullopt;
    }
}

FlowKey key_of(const uint8_t (&bytes)[sizeof(FlowKey)]) {
    FlowKey key;
    std::memcpy(&key, bytes, sizeof key);
    return key;
}

// The QP a rule names: who gets its frames, whose use it counts. nullptr: no raw packet QP.
uint32_t* find_target(Session& session, uint32_t qpn, engine::FlowSetup& rule, uint32_t& context) {
    if (const auto it = session.qps.find(qpn); it != session.qps.end()) {
        if (it->second.type != QpType::RawPacket) return nullptr;
        rule.queues = {qpn};
        rule.device = it->second.device;
        context = it->second.context;
        return &it->second.users;
    }
    const auto it = session.rss_qps.find(qpn);
    if (it == session.rss_qps.end()) return nullptr;
    rule.queues = it->second.queues;
    rule.hash = it->second.hash;
    rule.device = it->second.device;
    context = it->second.context;
    return &it->second.users;
}

uint32_t* users_of(Session& session, uint32_t qpn) {
    if (const auto it = session.qps.find(qpn); it != session.qps.end()) return &it->second.users;
    const auto it = session.rss_qps.find(qpn);
    return it == session.rss_qps.end() ? nullptr : &it->second.users;
}

}  // namespace

void handle(Call& call, const abi::CreateFlowRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    engine::FlowSetup rule;
    FlowObject flow;
    uint32_t* users = find_target(session, request.qpn, rule, flow.context);
    if (users == nullptr || request.priority > 0xffff) return call.reply.fail(EINVAL);
    const auto kind = kind_of(request.type);
    if (!kind || request.flags != 0) return call.reply.fail(EOPNOTSUPP);
    if (session.flows.size() >= static_cast<size_t>(control.config.limits.max_flows)) return call.reply.fail(ENOMEM);
    const auto id = session.flow_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    flow.qpn = request.qpn;
    flow.device = rule.device;
    rule.session = session.id;
    rule.id = *id;
    rule.kind = *kind;
    rule.priority = request.priority;
    rule.mask = key_of(request.mask);
    rule.key = masked(key_of(request.key), rule.mask);
    ++*users;
    session.flows.emplace(*id, flow);
    control.call(
        call.session, engine::kRawShard,
        [rule = std::move(rule)](engine::Shard& shard) {
            shard.create_flow(rule);
            return true;
        },
        [id = *id, reply = call.reply]() mutable { reply.send(abi::CreateFlowReply{id}); });
}

void remove_flow(Control& control, const std::shared_ptr<Session>& session, uint32_t id, std::function<void()> done) {
    const auto it = session->flows.find(id);
    const FlowObject flow = it->second;
    session->flows.erase(it);
    control.call(
        session, engine::kRawShard,
        [flow, session = session->id, id](engine::Shard& shard) {
            shard.destroy_flow(flow.device, session, id);
            return true;
        },
        [session, flow, id, done = std::move(done)] {
            session->flow_ids.give_back(id);
            if (uint32_t* users = users_of(*session, flow.qpn)) --*users;
            done();
        });
}

void handle(Call& call, const abi::DestroyFlowRequest& request) {
    if (!call.session->flows.contains(request.flow)) return call.reply.fail(EINVAL);
    remove_flow(call.control, call.session, request.flow,
                [reply = call.reply]() mutable { reply.send(abi::DestroyFlowReply{}); });
}

void handle(Call& call, const abi::CreateRssQpRequest& request) {
    Session& session = *call.session;
    const auto pd = session.pds.find(request.pd);
    if (pd == session.pds.end() || request.count > abi::kMaxRssQueues || !std::has_single_bit(request.count) ||
        !net::valid_rx_hash_fields(request.hash_fields))
        return call.reply.fail(EINVAL);
    RssQpObject rss;
    rss.context = pd->second.context;
    rss.device = session.contexts.at(rss.context).device;
    rss.pd = request.pd;
    rss.queues.assign(request.queues, request.queues + request.count);
    rss.hash.fields = request.hash_fields;
    std::copy(std::begin(request.hash_key), std::end(request.hash_key), rss.hash.key.begin());
    for (const uint32_t queue : rss.queues) {
        const auto it = session.qps.find(queue);
        if (it == session.qps.end() || it->second.type != QpType::RawPacket || it->second.context != rss.context)
            return call.reply.fail(EINVAL);
    }
    if (session.qps.size() + session.rss_qps.size() >= static_cast<size_t>(call.control.config.limits.max_qp))
        return call.reply.fail(ENOMEM);
    const auto qpn = call.control.qpns.take(engine::kRawShard);
    if (!qpn) return call.reply.fail(ENOMEM);
    for (const uint32_t queue : rss.queues) ++session.qps.at(queue).users;
    ++pd->second.users;
    session.rss_qps.emplace(*qpn, std::move(rss));
    call.reply.send(abi::CreateRssQpReply{*qpn});
}

void remove_rss_qp(Control& control, Session& session, uint32_t qpn) {
    const auto it = session.rss_qps.find(qpn);
    for (const uint32_t queue : it->second.queues)
        if (uint32_t* users = users_of(session, queue)) --*users;
    if (const auto pd = session.pds.find(it->second.pd); pd != session.pds.end()) --pd->second.users;
    session.rss_qps.erase(it);
    control.qpns.give_back(qpn);
}

void handle(Call& call, const abi::DestroyRssQpRequest& request) {
    const auto it = call.session->rss_qps.find(request.qpn);
    if (it == call.session->rss_qps.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    remove_rss_qp(call.control, *call.session, request.qpn);
    call.reply.send(abi::DestroyRssQpReply{});
}

}  // namespace rocemu::control
