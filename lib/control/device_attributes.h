// SPDX-License-Identifier: BSD-3-Clause
// What ibv_query_device, ibv_query_port and the GID queries say about a device. Limits are the configured quotas of one
// process and hold; speed and width are the nearest InfiniBand words for the port's Ethernet speed.
#pragma once

#include "abi/messages.h"
#include "config/config.h"
#include "control/device.h"

namespace rocemu::control {

inline constexpr uint32_t kMaxGroups = 8192, kMaxGroupsPerSession = 1024, kMaxGroupsPerQp = 256;  // of a device

[[nodiscard]] abi::QueryDeviceReply device_attributes(const Device& device, const config::LimitOptions& limits,
                                                      uint32_t shards);
[[nodiscard]] abi::QueryPortReply port_attributes(const Device& device);
// Entries from `first` on, empty ones with type 0.
[[nodiscard]] abi::QueryGidReply gid_entries(const Device& device, uint32_t first);

}  // namespace rocemu::control
