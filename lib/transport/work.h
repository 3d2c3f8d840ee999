// SPDX-License-Identifier: BSD-3-Clause
// What the core is told to do: send and receive WQEs after the engine has copied them out of shared memory and checked
// their shape (opcode known, counts within the QP's capabilities). Keys and addresses are still the application's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/verbs_types.h"

namespace rocemu::transport {

struct SendWqe {
    // What a completion needs comes first: see SendEntry.
    uint64_t wr_id = 0;
    uint32_t index = 0;  // free-running SQ index, echoed in the completion so that the provider frees slots
    WrOpcode opcode = WrOpcode::Send;
    uint8_t flags = 0;  // send_flags
    uint8_t num_sge = 0;
    // The engine found the WQE wrong (status to complete it with); it must still complete in order.
    WcStatus preset_error = WcStatus::Success;
    uint32_t length = 0;  // bytes of the whole message, the sum of its SGEs (at most 2^31, checked by the engine)
    // As it goes on the wire, network order kept as four raw bytes; or the rkey to invalidate; BIND_MW: the lkey.
    uint32_t imm_data = 0;
    uint64_t remote_addr = 0;  // BIND_MW: address in the region
    uint32_t rkey = 0;         // BIND_MW: the window's new one; UD: remote Q_Key
    // UD: the session's number of the address handle, and the destination QP; 0 on connected QPs.
    uint32_t ah = 0;
    uint32_t dest_qpn = 0;
    uint32_t srqn = 0;         // XRC: the peer's shared receive queue
    uint64_t compare_add = 0;  // BIND_MW: bytes
    uint64_t swap = 0;         // BIND_MW: access_flags
    // Payload in memory the daemon has mapped (inline data in the SQ slot, the session's stage): valid until the
    // completion of this WQE was written. nullptr: gather from the SGEs. A staged payload has SGEs too: keys are checked.
    const std::byte* mapped = nullptr;
};

struct RecvWqe {
    uint64_t wr_id = 0;
    uint32_t index = 0;  // free-running RQ index
    uint8_t num_sge = 0;
    uint64_t length = 0;  // bytes, sum of the SGEs
    uint32_t srq = 0;     // XRC: which shared receive queue lent it, echoed in the completion
    WcStatus preset_error = WcStatus::Success;
};

// A WQE in the core's queue before it is filled, num_sge and the SGEs it counts included.
struct SendSlot {
    SendWqe& wqe;
    std::span<Sge> sges;
};
struct RecvSlot {
    RecvWqe& wqe;
    std::span<Sge> sges;
};

}  // namespace rocemu::transport
