// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues: see srq_service.cpp.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

// Precondition: it exists in the session and no QP uses it.
void remove_srq(Control& control, const std::shared_ptr<Session>& session, uint32_t id, std::function<void()> done);

}  // namespace rocemu::control
