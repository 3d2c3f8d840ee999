// SPDX-License-Identifier: BSD-3-Clause
// ReceiveQueue: the receive WQEs lent to the responder. A WQE is taken by the first packet of a SEND (or the last of a
// WRITE with immediate), filled, and completes in order when its placements have succeeded.
// Read IBTA volume 1, 9.7.4.1 (resources), 10.8.2, 11.4.1.2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "base/fixed_array.h"
#include "base/fixed_ring.h"
#include "transport/work.h"

namespace rocemu::transport {

struct ReceiveEntry {
    RecvWqe wqe;
    bool filled = false;  // the whole message was accepted
    bool solicited = false;
    WcOpcode opcode = WcOpcode::Recv;
    uint32_t byte_len = 0;
    uint32_t wc_flags = 0;
    uint32_t imm_data = 0;  // raw, or the invalidated rkey
    uint32_t src_qp = 0;
    uint8_t sl = 0;
    uint64_t dma_mark = 0;  // complete when this much is placed
};

class ReceiveQueue {
  public:
    ReceiveQueue(uint32_t wqes, uint32_t max_sge, std::pmr::memory_resource* memory)
        : ring(wqes, memory), stride_(std::max(max_sge, 1u)), sges_(size_t{ring.slots()} * stride_, memory) {}

    // One more WQE, empty, and the room for its SGEs: the caller fills both where they lie.
    RecvSlot post() {
        const uint64_t seq = ring.tail();
        ReceiveEntry& e = ring.push();
        e = ReceiveEntry{};
        return {e.wqe, {sges_.data() + size_t{ring.slot_of(seq)} * stride_, stride_}};
    }
    [[nodiscard]] std::span<const Sge> sges_of(uint64_t seq) const {
        return {sges_.data() + size_t{ring.slot_of(seq)} * stride_, ring.at(seq).wqe.num_sge};
    }
    [[nodiscard]] bool has_free() const { return next != ring.tail(); }
    [[nodiscard]] uint32_t free() const { return static_cast<uint32_t>(ring.tail() - next); }
    // The next WQE goes to a message. Precondition: has_free().
    uint64_t take() { return next++; }

    // Takes the newest WQE back, unless a message has taken it (an SRQ's: another QP may need it). True if it did. What
    // a dropped message has left stays: it is out of the SRQ for good, and serves the next message of this QP.
    bool reclaim() {
        if (!has_free()) return false;
        ring.truncate(ring.tail() - 1);
        return true;
    }

    // The oldest WQE has completed. In ERR it may never have been taken.
    void pop() {
        ring.pop();
        next = std::max(next, ring.head());
    }
    void clear() {
        ring.clear();
        next = ring.tail();
        waiting = 0;
        failed = false;
    }
    // The WQE carries the error that takes the QP to ERR.
    void fail(uint64_t seq, WcStatus status) {
        failed = true;
        failed_seq = seq;
        failed_status = status;
    }

    FixedRing<ReceiveEntry> ring;
    uint64_t next = 0;     // first WQE not taken
    uint32_t waiting = 0;  // WQEs posted that there was no room for yet
    bool failed = false;
    uint64_t failed_seq = 0;
    WcStatus failed_status = WcStatus::Success;

  private:
    uint32_t stride_;
    FixedArray<Sge> sges_;
};

}  // namespace rocemu::transport
