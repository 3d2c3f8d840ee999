// SPDX-License-Identifier: BSD-3-Clause
// SendQueue: the WQEs a QP works on, and where the requester stands in them. A WQE goes through three borders, in
// order: started (PSNs assigned), acknowledged (by the completer), completed (leaves the ring in poll_completions).
// Read IBTA volume 1, 9.7.1 (PSN use), 9.7.3 (a READ takes as many PSNs as its response has packets), 10.8 (queues).
//
//   head <= una_seq <= cur_seq <= started_seq <= tail      WQE numbers
//   una <= cur <= high                                      extended PSNs
//   una: oldest PSN not acknowledged; cur: next to send; high: next never sent. cur < high: going back.
//   acked: everything below was executed by the peer; una stays behind it where the data of a READ or atomic is
//   missing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

#include "base/fixed_array.h"
#include "base/fixed_ring.h"
#include "transport/credits.h"
#include "transport/qp_context.h"
#include "transport/work.h"

namespace rocemu::transport {

// Two cache lines: an ACK and the completion need the first one alone.
struct alignas(64) SendEntry {
    uint64_t first = 0;                        // extended PSN of the first packet; valid when started
    uint64_t end = 0;                          // one past the last
    uint64_t first_request = 0;                // number of its first request packet, for the window
    uint64_t dma_mark = 0;                     // READ, atomic: complete when this much is placed
    WcStatus local_error = WcStatus::Success;  // stops the requester here; becomes the completion when its turn comes
    SendWqe wqe;
    uint64_t atomic_result = 0;  // the source of its placement

    // Answered by a response of its own: a plain ACK does not complete it.
    [[nodiscard]] bool is_read() const { return wqe.opcode == WrOpcode::RdmaRead; }
    [[nodiscard]] bool is_atomic() const {
        return wqe.opcode == WrOpcode::AtomicCmpAndSwp || wqe.opcode == WrOpcode::AtomicFetchAndAdd;
    }
    [[nodiscard]] bool wants_data() const { return is_read() || is_atomic() || is_atomic_write(); }
    [[nodiscard]] bool sends_payload() const { return !is_read() && !is_atomic(); }
    // A19: answered as a READ of no bytes.
    [[nodiscard]] bool is_atomic_write() const { return wqe.opcode == WrOpcode::AtomicWrite; }
    // Done where it stands in the queue, nothing is sent: it takes no PSN.
    [[nodiscard]] bool is_local() const { return wqe.opcode == WrOpcode::LocalInv || wqe.opcode == WrOpcode::BindMw; }
};

static_assert(sizeof(SendEntry) == 128 && offsetof(SendEntry, wqe) + offsetof(SendWqe, imm_data) <= 64);

class SendQueue {
  public:
    SendQueue(uint32_t wqes, uint32_t max_sge, std::pmr::memory_resource* memory)
        : ring(wqes, memory), stride_(std::max(max_sge, 1u)), sges_(size_t{ring.slots()} * stride_, memory) {}

    // One more WQE, empty, and the room for its SGEs: the caller fills both where they lie.
    SendSlot post() {
        const uint64_t seq = ring.tail();
        SendEntry& e = ring.push();
        e = SendEntry{};
        return {e.wqe, {slot(seq), stride_}};
    }
    [[nodiscard]] std::span<const Sge> sges_of(uint64_t seq) const {
        return {sges_.data() + size_t{ring.slot_of(seq)} * stride_, ring.at(seq).wqe.num_sge};
    }

    // The oldest WQE has completed. In ERR it may never have been started.
    void pop() {
        ring.pop();
        una_seq = std::max(una_seq, ring.head());
        cur_seq = std::max(cur_seq, una_seq);
        started_seq = std::max(started_seq, una_seq);
    }
    // Forgets all WQEs; numbers go on.
    void clear() {
        ring.clear();
        una_seq = cur_seq = started_seq = ring.tail();
        una = cur = high = acked = 0;
        requests_sent = 0;
        data_requests = 0;
        data_end = data_mark = 0;
        credits.reset();
        failed = false;
    }
    void start(uint64_t psn) { una = cur = high = acked = psn; }

    // An ACK will look at the oldest entries, a WQE that is posted fills the next one.
    void prefetch() const {
        constexpr uint32_t kEntries = 8;
        for (uint32_t i = 0; i < std::min(ring.size(), kEntries); ++i) ring.prefetch(ring.head() + i);
        ring.prefetch(ring.tail());
    }

    [[nodiscard]] bool outstanding() const { return una != high; }
    // All that was begun is acknowledged.
    [[nodiscard]] bool nothing_begun() const { return una_seq == started_seq; }
    // Request packets sent and not acknowledged (a READ is one, however many PSNs it takes).
    [[nodiscard]] uint64_t requests_out() const {
        if (nothing_begun()) return 0;
        const SendEntry& e = ring.at(una_seq);
        return requests_sent - e.first_request - (e.wants_data() ? 0 : una - e.first);
    }
    // READ responses that may be on their way, at most `most`.
    [[nodiscard]] uint32_t responses_expected(uint32_t most) const {
        return data_requests == 0 ? 0 : static_cast<uint32_t>(std::min<uint64_t>(high - una, most));
    }
    // The local operation at cur_seq was carried out, or is met again on the way forward.
    void pass_local();
    // Back to the oldest unacknowledged packet (go-back-N).
    void rewind() {
        cur = una;
        cur_seq = una_seq;
    }
    // Moves the cursor over packets that are known to have been executed: only the data of READs and atomics is asked
    // for again then.
    void skip_acknowledged();
    // Everything below `target` was acknowledged, explicitly or not. Stops in front of READ and atomic responses that
    // are missing. True if una reached the target.
    bool acknowledge(uint64_t target);
    // The response packet at `una` has arrived: it belongs to ring.at(una_seq).
    void take_response();

    FixedRing<SendEntry> ring;
    uint64_t una_seq = 0, cur_seq = 0, started_seq = 0;
    uint64_t una = 0, cur = 0, high = 0, acked = 0;
    uint64_t requests_sent = 0;
    uint32_t data_requests = 0;  // READs and atomics outstanding
    uint64_t data_end = 0;       // `end` of the newest READ or atomic sent: what a fence waits for ...
    uint64_t data_mark = 0;      // ... together with this placement
    Credits credits;
    // The WQE that took the QP to ERR; the ones behind it are flushed whatever became of them.
    bool failed = false;
    uint64_t failed_seq = 0;
    WcStatus failed_status = WcStatus::Success;

  private:
    [[nodiscard]] Sge* slot(uint64_t seq) { return sges_.data() + size_t{ring.slot_of(seq)} * stride_; }
    void advance();
    void leave_acknowledged();

    uint32_t stride_;
    FixedArray<Sge> sges_;
};

// IBTA 9.9.3: the WQE completes in error, the QP goes to ERR. The oldest failure wins.
inline void fail_send(QpContext& ctx, SendQueue& q, uint64_t seq, WcStatus status) {
    if (!q.failed || seq < q.failed_seq) {
        q.failed = true;
        q.failed_seq = seq;
        q.failed_status = status;
    }
    ctx.enter_error();
}

}  // namespace rocemu::transport
