// SPDX-License-Identifier: BSD-3-Clause
// The services: one handler for each message of abi/messages.def, one file for each kind of object. A handler checks
// everything it uses (numbers belong to the session, sizes to the limits) and answers call.reply exactly once, now or
// when shards have answered.
#pragma once

#include "abi/messages.h"
#include "control/control.h"
#include "control/replier.h"

namespace rocemu::control {

struct Call {
    Control& control;
    std::shared_ptr<Session> session;
    Replier reply;
    std::vector<UniqueFd> fds;  // that came with the request
};

// The answer to a request that made a queue in `block`.
template <typename Reply>
void reply_with_queue(Session& session, const QueueBlock& block, Reply reply, Replier replier) {
    std::vector<UniqueFd> fds;
    reply.new_region_bytes = session.arena->introduce(block, fds);
    replier.send(reply, std::move(fds));
}

#define MESSAGE(name, number) void handle(Call& call, const abi::name##Request& request);
#include "abi/messages.def"
#undef MESSAGE

}  // namespace rocemu::control
