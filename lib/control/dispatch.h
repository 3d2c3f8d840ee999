// SPDX-License-Identifier: BSD-3-Clause
// From a received record to the handler of its message. A record of the wrong size or number gets status EPROTO.
#pragma once

#include <span>

#include "control/services/services.h"

namespace rocemu::control {

void dispatch(Control& control, const std::shared_ptr<Session>& session, const abi::MessageHeader& header,
              std::span<const std::byte> body, Session::Fds fds);

}  // namespace rocemu::control
