// SPDX-License-Identifier: BSD-3-Clause
// Removal of flow rules and of QPs that only hash, for destroy calls and for teardown.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"

namespace rocemu::control {

void remove_flow(Control& control, const std::shared_ptr<Session>& session, uint32_t flow, std::function<void()> done);
void remove_rss_qp(Control& control, Session& session, uint32_t qpn);

}  // namespace rocemu::control
