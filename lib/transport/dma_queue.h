// SPDX-License-Identifier: BSD-3-Clause
// DmaQueue: the accesses to application memory that received packets of one QP asked for, from the check that allowed
// them to the result. Both the responder (SEND, WRITE, atomics) and the completer (READ and atomic results) use it, so
// one order holds for all of them: no ACK, response or CQE leaves before the earlier placements have succeeded.
// See docs/architecture.md, "payload access is asynchronous".
//
// A mark is a position in that order: "everything before it is placed" is placed(owner) >= mark. After the first failure
// of an owner its placed() stands still until the QP is reset: nothing behind a failed placement may be acknowledged or
// completed. The other owner's is not concerned: what a peer wrote has nothing to do with what was read from it.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "base/fixed_ring.h"
#include "memory/key_table.h"
#include "transport/io.h"

namespace rocemu::transport {

enum class DmaOwner : uint8_t { None, Responder, Completer };
inline constexpr size_t kDmaOwners = 3;

// Operands of an atomic, host order; they stay in the responder resource until the result is in.
struct AtomicOperands {
    uint64_t compare_add = 0;
    uint64_t swap = 0;
};

struct DmaOp {
    const void* source = nullptr;  // Place, Store: bytes in the frame; atomics: AtomicOperands
    uint64_t packet = 0;           // extended PSN of the packet: where a failure is NAKed
    uint64_t ref = 0;              // responder: receive or resource number; completer: WQE number
    uint64_t ack_packet = 0;       // 0, or: when this is placed, everything up to this PSN may be acknowledged ...
    uint32_t ack_msn = 0;          // ... with this MSN
    uint16_t length = 0;           // bytes; one packet's payload
    uint8_t segments = 0;
    DmaKind kind = DmaKind::Place;
    DmaOwner owner = DmaOwner::None;
    bool takes_receive = false;  // `ref` is a receive WQE (SEND)
    bool deferrable = false;     // DmaRequest
    bool ends_write = false;     // DmaRequest
    uint32_t wqe_index = 0;      // as in its completion; for `deferrable`
};

// The most SGEs a WQE may have, and so the most segments of a packet.
inline constexpr uint32_t kMaxSge = 64;

class DmaQueue {
  public:
    // `window`: operations that may be on the way at a time. max_sge: segments that one may need.
    DmaQueue(uint32_t window, uint32_t max_sge, std::pmr::memory_resource* memory)
        : ops_(window, memory), segments_(window + 2 * max_sge, memory), max_sge_(max_sge) {}

    // Room for one more packet, whatever its SGEs, and `kept_free` more of the usual kind.
    [[nodiscard]] bool has_room(uint32_t kept_free = 0) const {
        return ops_.room() > kept_free && segments_.room() >= max_sge_ + kept_free;
    }
    // What one side may leave to the other.
    [[nodiscard]] uint32_t half() const { return ops_.capacity() / 2; }

    // One more operation, empty but for its segments: the caller fills it where it lies (a copy of what was just written
    // field by field waits for those stores). mark() is behind it. Precondition: has_room().
    DmaOp& push(std::span<const memory::Segment> segments) {
        for (const auto& s : segments) segments_.push(s);
        DmaOp& op = ops_.push();
        op = DmaOp{};
        op.segments = static_cast<uint8_t>(segments.size());
        return op;
    }
    [[nodiscard]] uint64_t mark() const { return ops_.tail(); }
    [[nodiscard]] uint64_t placed(DmaOwner owner) const {
        return std::min(ops_.head(), fault_mark_[static_cast<size_t>(owner)]);
    }
    [[nodiscard]] bool faulted(DmaOwner owner) const { return fault_mark_[static_cast<size_t>(owner)] != kNoFault; }
    // The newest operation that has no result yet, or null.
    [[nodiscard]] DmaOp* newest() { return ops_.empty() ? nullptr : &ops_.back(); }
    // Nothing waits and nothing is out.
    [[nodiscard]] bool empty() const { return ops_.empty(); }
    // Nothing was handed out that has not been reported.
    [[nodiscard]] bool idle() const { return handed_out_ == ops_.head(); }

    // The next packet's place.
    void prefetch() const {
        ops_.prefetch(ops_.tail());
        segments_.prefetch(segments_.tail());
    }

    bool poll(Qp* qp, DmaBatch& batch);

    // Takes the result of the oldest operation. The operation is returned; its owner is None if the QP was reset since.
    DmaOp finish(uint64_t tag, DmaStatus status) {
        assert(tag == ops_.head() && handed_out_ > tag);
        (void)tag;
        const DmaOp op = ops_.front();
        if (status != DmaStatus::Ok && !faulted(op.owner)) fault_mark_[static_cast<size_t>(op.owner)] = ops_.head();
        ops_.pop();
        return op;
    }

    // Reset: what was not handed out is forgotten, what is out will be ignored when it comes back.
    void abandon();

  private:
    FixedRing<DmaOp> ops_;  // sequence number = tag
    FixedRing<memory::Segment> segments_;
    uint32_t max_sge_;
    uint64_t handed_out_ = 0;  // tags below were given to the engine
    static constexpr uint64_t kNoFault = ~uint64_t{0};
    std::array<uint64_t, kDmaOwners> fault_mark_{kNoFault, kNoFault, kNoFault};  // by owner
};

}  // namespace rocemu::transport
