// SPDX-License-Identifier: BSD-3-Clause
// flow_key_of: the fields of any frame that flow rules look at. Every length is checked: what the frame is too short for
// it does not have. Read IEEE 802.1Q 9.6, RFC 791 3.1, RFC 8200 3 (extension headers are not looked behind).
#pragma once

#include <span>

#include "base/flow_key.h"

namespace rocemu::wire {

[[nodiscard]] FlowKey flow_key_of(std::span<const std::byte> frame);

}  // namespace rocemu::wire
