// SPDX-License-Identifier: BSD-3-Clause
// Completion channels: the daemon's end of a socket pair of the application. An event is one 8-byte record.
#include <cerrno>

#include "control/services/services.h"

namespace rocemu::control {

void handle(Call& call, const abi::CreateChannelRequest& request) {
    Session& session = *call.session;
    if (!session.contexts.contains(request.context)) return call.reply.fail(EINVAL);
    if (call.fds.empty() || !EventOutbox::accepts(call.fds[0].get())) return call.reply.fail(EINVAL);
    if (session.channels.size() >= static_cast<size_t>(call.control.config.limits.max_channels))
        return call.reply.fail(ENOMEM);
    const auto id = session.channel_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    ChannelObject channel;
    channel.context = request.context;
    channel.events = std::make_unique<EventOutbox>(call.control.loop, std::move(call.fds[0]));
    session.channels.emplace(*id, std::move(channel));
    abi::CreateChannelReply reply;
    reply.channel = *id;
    call.reply.send(reply);
}

void handle(Call& call, const abi::DestroyChannelRequest& request) {
    const auto it = call.session->channels.find(request.channel);
    if (it == call.session->channels.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    call.session->channels.erase(it);
    call.session->channel_ids.give_back(request.channel);
    call.reply.send(abi::DestroyChannelReply{});
}

}  // namespace rocemu::control
