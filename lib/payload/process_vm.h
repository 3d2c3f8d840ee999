// SPDX-License-Identifier: BSD-3-Clause
// The pull path: process_vm_readv/writev between buffers of the daemon and one process. A call costs about 2 us
// whatever its size and 0.5 us for each further remote range, local ranges are nearly free: so one call for a whole
// message range, with adjacent pieces merged on the remote side. See process_vm_readv(2).
#pragma once

#include <cstdint>
#include <span>

#include "payload/mover.h"

namespace rocemu::payload {

struct VmOutcome {
    uint32_t complete = 0;  // pieces copied completely, from the first on
    int error = 0;          // 0, or errno of the call that failed (EFAULT for a short one)
    uint32_t calls = 0;
    uint64_t bytes = 0;
};

// Copies all pieces in order. ToSpace: the last 8 bytes are a remote range of their own and therefore stored after all
// others (programs poll the last byte of a message; a string copy inside one range has no order).
[[nodiscard]] VmOutcome process_vm_copy(int pid, Direction direction, std::span<const Piece> pieces);

}  // namespace rocemu::payload
