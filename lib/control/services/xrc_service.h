// SPDX-License-Identifier: BSD-3-Clause
// XRC domains and the target QPs in them, as the services of QPs and SRQs and the teardown need them. See xrc_service.cpp.
#pragma once

#include <functional>
#include <memory>

#include "control/control.h"
#include "control/services/services.h"

namespace rocemu::control {

// Answers a CreateQp of type XRC_RECV.
void create_target(Call& call, const abi::CreateQpRequest& request);
// The domain of a target QP that the session has a handle of, or nullptr.
std::shared_ptr<XrcDomain> find_target(const Session& session, uint32_t qpn);
// Closes one handle; the QP goes with the last. False: the session has no such handle.
bool close_target(Control& control, const std::shared_ptr<Session>& session, uint32_t qpn, uint64_t cookie,
                  std::function<void()> done);
// An object of the domain has left its shard, or a handle of the domain was closed.
void object_left(Control& control, XrcDomain& domain);
// For teardown: all handles of QPs; of domains, when those are gone.
void close_targets(Control& control, const std::shared_ptr<Session>& session, uint32_t context);
void close_domains(Control& control, Session& session, uint32_t context);
// An event of a target: every handle hears of it.
void tell_handles(Control& control, const XrcDomain& domain, const engine::ShardEvent& event);

}  // namespace rocemu::control
