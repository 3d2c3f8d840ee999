// SPDX-License-Identifier: BSD-3-Clause
// Ah: an address handle: a number that the daemon resolved when it was created.
#pragma once

#include "abi/queues.h"
#include "provider/objects.h"

namespace rocemu::provider {

struct Ah {
    ibv_ah base;  // handle: the daemon's number
    std::byte foreign_pad[kForeignPad];
    static Ah* of(ibv_ah* ah) { return reinterpret_cast<Ah*>(ah); }
};

// Where a datagram goes.
inline void set_destination(abi::SqWqe& wqe, const ibv_ah& ah, uint32_t qpn, uint32_t qkey) {
    wqe.remote_addr = uint64_t{ah.handle} << 32 | qpn;
    wqe.rkey = qkey;
}

}  // namespace rocemu::provider
