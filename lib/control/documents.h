// SPDX-License-Identifier: BSD-3-Clause
// The texts that tools read: status and counters, as JSON.
#pragma once

#include <string>

#include "control/control.h"

namespace rocemu::control {

[[nodiscard]] std::string status_document(Control& control);
// {"device": {"counter": value}}: sums over the shards. The entry "daemon" has the payload counters of all devices.
[[nodiscard]] std::string counters_document(Control& control);

}  // namespace rocemu::control
