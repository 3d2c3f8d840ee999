// SPDX-License-Identifier: BSD-3-Clause
// Protection domains. Only a number: unique over all sessions, because the key tables of the shards compare it.
#include <cerrno>

#include "control/services/services.h"

namespace rocemu::control {

void handle(Call& call, const abi::AllocPdRequest& request) {
    Session& session = *call.session;
    if (!session.contexts.contains(request.context)) return call.reply.fail(EINVAL);
    if (session.pds.size() >= static_cast<size_t>(call.control.config.limits.max_pd)) return call.reply.fail(ENOMEM);
    const auto id = call.control.pd_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    session.pds.emplace(*id, PdObject{request.context, 0});
    abi::AllocPdReply reply;
    reply.pd = *id;
    call.reply.send(reply);
}

void handle(Call& call, const abi::DeallocPdRequest& request) {
    const auto it = call.session->pds.find(request.pd);
    if (it == call.session->pds.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    call.session->pds.erase(it);
    call.control.pd_ids.give_back(request.pd);
    call.reply.send(abi::DeallocPdReply{});
}

}  // namespace rocemu::control
