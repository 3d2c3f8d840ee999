// SPDX-License-Identifier: BSD-3-Clause
// Removal of a completion queue, also for teardown.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

// Precondition: the CQ is in session->cqs and no QP uses it. `done` when no shard writes to it any more.
void remove_cq(Control& control, const std::shared_ptr<Session>& session, uint32_t cq, std::function<void()> done);

}  // namespace rocemu::control
