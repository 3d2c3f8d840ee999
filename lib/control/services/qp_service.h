// SPDX-License-Identifier: BSD-3-Clause
// Removal of a queue pair, also for teardown.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

// What every QP of the device has of the configuration.
transport::QpConfig limits_of(const Control& control, uint32_t device);

// Precondition: the QP is in session->qps. `done` when its shard has forgotten it and no payload job of it is out.
void remove_qp(Control& control, const std::shared_ptr<Session>& session, uint32_t qpn, std::function<void()> done);

}  // namespace rocemu::control
