// SPDX-License-Identifier: BSD-3-Clause
// See cq_ring.h.
#include "engine/cq_ring.h"

#include <atomic>
#include <cstddef>
#include <cstring>

namespace rocemu::engine {

bool CqRing::write(const transport::Completion& c, uint32_t qpn, uint32_t qp_slot, Instant now) {
    if (producer_ - consumer_seen_ >= setup_.entries) {
        // Acquire: the application has read the slots before it released them.
        consumer_seen_ = setup_.header->consumer.load(std::memory_order_acquire);
        // Also true for nonsense: the application then only hurts itself.
        if (producer_ - consumer_seen_ >= setup_.entries) {
            consumer_seen_ = producer_ - setup_.entries;
            overflowed_ = true;
            setup_.header->overflow.store(1, std::memory_order_release);
            return false;
        }
    }
    if (overflowed_) return false;  // IBTA 10.2.6.2: a CQ that has overrun completes nothing any more
    abi::Cqe& e = slots_[producer_ & (setup_.entries - 1)];
    e.wr_id = c.wr_id;
    e.timestamp_ns = static_cast<uint64_t>(now.ns);
    e.stage_ref = 0;
    e.qpn = qpn;
    e.qp_slot = qp_slot;
    e.wqe_index = c.index;
    e.byte_len = c.byte_len;
    e.imm_data = c.imm_data;
    e.src_qp = c.src_qp;
    e.vendor_err = 0;
    e.wc_flags = static_cast<uint16_t>(c.wc_flags);
    e.slid = 0;
    e.pkey_index = 0;
    e.status = static_cast<uint8_t>(c.status);
    e.opcode = static_cast<uint8_t>(c.opcode);
    e.is_recv = c.is_recv ? 1 : 0;
    e.sl = c.sl;
    e.reserved = 0;
    const uint32_t pass = producer_ / setup_.entries;  // entries is a power of two: wraps together with the index
    e.phase.store(static_cast<uint8_t>((pass + 1) & 1), std::memory_order_release);
    ++producer_;
    ++fresh_;
    // IBTA 11.4.2.2: errors count as solicited.
    solicited_ |= c.solicited || c.status != WcStatus::Success;
    return true;
}

void CqRing::move_to(abi::QueueHeader* header, uint32_t entries) {
    uint32_t from = setup_.header->consumer.load(std::memory_order_acquire);
    // Nonsense counts as nothing consumed: all that the old ring holds moves.
    if (producer_ - from > setup_.entries) from = producer_ - setup_.entries;
    auto* slots = reinterpret_cast<abi::Cqe*>(header + 1);
    uint32_t count = 0;
    for (; from != producer_ && count < entries; ++from, ++count) {
        std::memcpy(static_cast<void*>(&slots[count]), &slots_[from & (setup_.entries - 1)], offsetof(abi::Cqe, phase));
        slots[count].phase.store(1, std::memory_order_release);
    }
    if (from != producer_) overflowed_ = true;
    header->overflow.store(overflowed_ ? 1 : 0, std::memory_order_relaxed);
    header->armed.store(setup_.header->armed.load(std::memory_order_relaxed), std::memory_order_relaxed);
    header->moderation.store(setup_.header->moderation.load(std::memory_order_relaxed), std::memory_order_relaxed);
    header->producer.store(count, std::memory_order_release);
    setup_.header = header;
    setup_.entries = entries;
    slots_ = slots;
    producer_ = count;
    consumer_seen_ = 0;
}

// May the event wait? `limits`: QueueHeader::moderation.
bool CqRing::moderated(uint32_t limits, Instant now) {
    held_ += fresh_;
    if (held_ < (limits & 0xffff)) {
        const Duration period = (limits >> 16) * kMicrosecond;
        if (event_due_ == kNever && period != 0) event_due_ = now + period;
        if (now < event_due_) return true;
    }
    held_ = 0;
    event_due_ = kNever;
    return false;
}

CqRing::Arm CqRing::flush(Instant now) {
    setup_.header->producer.store(producer_, std::memory_order_release);
    // The application arms, fences, and looks for CQEs; we write CQEs, fence, and look at the arm word: one of the two
    // sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t armed = setup_.header->armed.load(std::memory_order_relaxed);
    const bool fulfilled = armed == abi::kArmedAny || (armed == abi::kArmedSolicited && solicited_);
    const bool held = fulfilled && moderated(setup_.header->moderation.load(std::memory_order_relaxed), now);
    fresh_ = 0;
    if (held) return Arm::Held;
    solicited_ = false;
    if (!fulfilled) return Arm::Nothing;
    return setup_.header->armed.exchange(abi::kDisarmed) == abi::kDisarmed ? Arm::Nothing : Arm::Event;
}

}  // namespace rocemu::engine
