// SPDX-License-Identifier: BSD-3-Clause
// Removal of a memory region, also for teardown.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

// Precondition: the key is in session->mrs. `done` when no shard knows it any more.
void remove_mr(Control& control, const std::shared_ptr<Session>& session, uint32_t key, std::function<void()> done);

void remove_mw(Control& control, const std::shared_ptr<Session>& session, uint32_t handle, std::function<void()> done);

}  // namespace rocemu::control
