// SPDX-License-Identifier: BSD-3-Clause
// The speed of a kernel interface as its driver tells ethtool: what DPDK's drivers for such interfaces say is a constant.
#pragma once

#include <cstdint>
#include <string>

namespace rocemu::control {

// Mbit/s of an interface of this network namespace; 0: its driver does not say (no link, most virtual interfaces).
[[nodiscard]] uint32_t link_speed(const std::string& interface);

}  // namespace rocemu::control
