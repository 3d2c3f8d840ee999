// SPDX-License-Identifier: BSD-3-Clause
// The probe at hello: see probe.h.
#include "payload/probe.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rocemu::payload {

int probe_process_vm(int pid, uint64_t va, std::span<const uint8_t, 16> cookie) {
    if (pid <= 0) return ESRCH;  // SO_PEERCRED says 0 for a process our namespace does not see
    std::array<uint8_t, 16> seen{};
    const iovec local{seen.data(), seen.size()};
    const iovec remote{reinterpret_cast<void*>(va), seen.size()};
    const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n < 0) return errno;
    if (n != static_cast<ssize_t>(seen.size()) || !std::equal(seen.begin(), seen.end(), cookie.begin())) return ENOENT;
    return 0;
}

}  // namespace rocemu::payload
