// SPDX-License-Identifier: BSD-3-Clause
// Numbers of the file that share.cpp and share_convert.cpp have in common.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rocemu::provider {

inline constexpr uint64_t kSlotBytes = uint64_t{1} << 40;
inline constexpr uint32_t kSlots = 1u << 21;
inline constexpr uint64_t kMostSharedBytes = kSlotBytes / 2;  // of one region: the rest is for mremap(2)
// Mappings of this process beyond which nothing is converted: each conversion may make two more, and the kernel gives a
// process 65530 (vm.max_map_count).
inline constexpr size_t kMostMappings = 16384;

constexpr uint32_t slot_of(uint64_t offset) { return static_cast<uint32_t>(offset / kSlotBytes); }

}  // namespace rocemu::provider
