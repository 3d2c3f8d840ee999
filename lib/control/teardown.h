// SPDX-License-Identifier: BSD-3-Clause
// The end of a context or of a whole session: QPs first, then CQs and memory regions, then the rest, each step when the
// shards have confirmed the one before. (Before all that a session's payload jobs are given up.) Destroying ten thousand
// QPs takes many turns of a shard and disturbs nobody.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

// Everything made in this context, then the context. Precondition: it is in session->contexts. Until `done` no
// request of the session is read.
void destroy_context(Control& control, const std::shared_ptr<Session>& session, uint32_t context,
                     std::function<void()> done);

// The process is gone, or its connection: nothing of it is left when the session leaves control.sessions.
// May be called more than once.
void end_session(Control& control, const std::shared_ptr<Session>& session);

}  // namespace rocemu::control
