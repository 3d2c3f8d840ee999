// SPDX-License-Identifier: BSD-3-Clause
// Neighbour messages on a device: answers ARP requests and ND solicitations for addresses that no kernel answers for,
// and tells control what neighbours say about themselves. Read RFC 826, RFC 4861 7.2.
#pragma once

#include <span>

#include "engine/notifier.h"

namespace rocemu::engine {

struct Device;

// True: the frame was ARP or ND (answered, learned, or of no use). The frame stays the caller's.
bool handle_neighbour_frame(Device& device, std::span<const std::byte> frame, Notifier& notifier);

}  // namespace rocemu::engine
