// SPDX-License-Identifier: BSD-3-Clause
// The probe at hello: can this daemon reach the memory of that process, and is the process number the right one?
// The client says where its random cookie lies; if the bytes found there are the cookie it sent, the number (from
// SO_PEERCRED) denotes that address space in our pid namespace and process_vm is permitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocemu::payload {

// 0; or errno of the refused call (EPERM, ESRCH, ...), or ENOENT when other bytes were found there.
[[nodiscard]] int probe_process_vm(int pid, uint64_t va, std::span<const uint8_t, 16> cookie);

}  // namespace rocemu::payload
