// SPDX-License-Identifier: BSD-3-Clause
// Memory windows: allocated in every shard's key table. One of type 2 is bound by a WQE and reached through the QP it
// was bound through, so its shard alone knows of it; one of type 1 is reached through any QP of the PD: it is bound
// here. Read IBTA volume 1, 10.6.7 and the ibv_alloc_mw and ibv_bind_mw man pages.
#include <atomic>
#include <cerrno>

#include "control/services/mr_service.h"
#include "control/services/services.h"

namespace rocemu::control {

void handle(Call& call, const abi::AllocMwRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto pd = session.pds.find(request.pd);
    if (pd == session.pds.end() || request.type < 1 || request.type > 2) return call.reply.fail(EINVAL);
    if (session.mws.size() >= static_cast<size_t>(control.config.limits.max_mw)) return call.reply.fail(ENOMEM);
    const auto key = control.keys.take();
    if (!key) return call.reply.fail(ENOMEM);
    session.mws.emplace(*key, MwObject{request.pd, pd->second.context, request.type == 1, *key});
    ++pd->second.users;
    memory::Region window;
    window.key = *key;
    window.pd = request.pd;
    window.kind = request.type == 1 ? memory::KeyKind::WindowType1 : memory::KeyKind::WindowType2;
    control.call_all(
        call.session,
        [window](engine::Shard& shard, uint32_t) {
            shard.keys().insert(window);
            return true;
        },
        [key = *key, reply = call.reply]() mutable { reply.send(abi::AllocMwReply{key}); });
}

void remove_mw(Control& control, const std::shared_ptr<Session>& session, uint32_t handle, std::function<void()> done) {
    const auto it = session->mws.find(handle);
    const uint32_t pd_id = it->second.pd;
    session->mws.erase(it);
    control.call_all(
        session,
        [handle, id = session->id, fence = uint64_t{0}](engine::Shard& shard, uint32_t) mutable {
            shard.keys().remove_window(handle);
            return shard.payload_passed(id, fence);
        },
        [&control, session, handle, pd_id, done = std::move(done)] {
            control.keys.give_back(handle);
            if (const auto pd = session->pds.find(pd_id); pd != session->pds.end()) --pd->second.users;
            done();
        });
}

void handle(Call& call, const abi::DeallocMwRequest& request) {
    if (!call.session->mws.contains(request.key)) return call.reply.fail(EINVAL);
    remove_mw(call.control, call.session, request.key,
              [reply = call.reply]() mutable { reply.send(abi::DeallocMwReply{}); });
}

void handle(Call& call, const abi::BindMwRequest& request) {
    Session& session = *call.session;
    const auto mw = session.mws.find(request.window);
    const auto qp = session.qps.find(request.qpn);
    if (mw == session.mws.end() || qp == session.qps.end() || !mw->second.type1) return call.reply.fail(EINVAL);
    memory::WindowBind bind;
    // DEVIATION: a window of type 1 is bound when ibv_bind_mw returns, not when its work request has come to its turn
    // (IBTA 10.6.7.2): all shards must know of it, and a shard changes no other's table. Its completion is in order.
    // The variant in the low byte moves on: peers that know the old key are shut out.
    bind.key = (mw->second.key & ~0xffu) | ((mw->second.key + 1) & 0xff);
    bind.region = request.region;
    bind.pd = qp->second.pd;
    bind.access = request.access;
    bind.addr = request.addr;
    bind.length = request.length;
    mw->second.key = bind.key;
    // The tables are equal as far as windows of type 1 go: all shards bind or none.
    auto bound = std::make_shared<std::atomic<bool>>(true);
    call.control.call_all(
        call.session,
        [bind, bound](engine::Shard& shard, uint32_t) {
            if (!shard.keys().bind(bind)) *bound = false;
            return true;
        },
        [key = bind.key, bound, reply = call.reply]() mutable {
            reply.send(abi::BindMwReply{key, *bound ? 1u : 0u});
        });
}

}  // namespace rocemu::control
