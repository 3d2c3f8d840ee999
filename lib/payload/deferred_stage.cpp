// SPDX-License-Identifier: BSD-3-Clause
// See deferred_stage.h.
#include "payload/deferred_stage.h"

#include <cerrno>
#include <cstring>

#include "payload/process_vm.h"

namespace rocemu::payload {

using abi::DeferredState;
using stats::Counter;

namespace {

// How long a copy of the provider is waited for: it takes 3 us at most, if it has its core.
constexpr uint32_t kLooks = 400;
constexpr uint32_t kAlignment = 64;

}  // namespace

bool DeferredStage::reserve(uint32_t length, uint32_t& offset) {
    // Messages of whole cache lines stay contiguous, what follows others begins on a line of its own.
    uint64_t at = (bytes_head_ + kAlignment - 1) / kAlignment * kAlignment;
    const auto inside = static_cast<uint32_t>(at % abi::kReceiveStageBytes);
    if (inside + uint64_t{length} > abi::kReceiveStageBytes) at += abi::kReceiveStageBytes - inside;
    if (at + length - bytes_tail_ > abi::kReceiveStageBytes) return false;
    offset = static_cast<uint32_t>(at % abi::kReceiveStageBytes);
    bytes_head_ = at + length;
    return true;
}

void DeferredStage::write_record(uint32_t number) {
    const Record& r = records_[number & kMask];
    abi::DeferredRecord& shared = stage_.records[number & kMask];
    shared.va = r.va;
    shared.length = r.length;
    shared.offset = r.offset;
    shared.qpn = r.origin.qpn;
    shared.qp_slot = r.origin.qp_slot;
    shared.wqe_index = r.origin.wqe_index;
    shared.is_recv = r.origin.is_recv ? 1 : 0;
    // Release: partner is the acquire of whoever takes it.
    shared.state.store(abi::deferred_word(number, DeferredState::Pending), std::memory_order_release);
}

bool DeferredStage::append(std::span<const Piece> pieces, std::span<const Origin> origins) {
    retire();
    const uint32_t head = head_;
    const uint64_t bytes_head = bytes_head_;
    uint64_t total = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        uint32_t offset = 0;
        Record* last = head_ != head ? &records_[(head_ - 1) & kMask] : nullptr;
        const bool room = piece.length <= abi::kReceiveStageBytes && reserve(piece.length, offset);
        const bool joins = room && last != nullptr && last->va + last->length == piece.va &&
                           last->offset + last->length == offset && last->origin == origins[i] &&
                           last->length + piece.length <= kMaxRecordBytes;
        if (!room || (!joins && head_ - tail_ == abi::kDeferredRecords)) {
            head_ = head;
            bytes_head_ = bytes_head;
            counters_.add(Counter::payload_deferred_full);
            return false;
        }
        std::memcpy(stage_.bytes + offset, piece.local, piece.length);
        total += piece.length;
        if (joins) {
            last->length += piece.length;
            last->end = bytes_head_;
        } else {
            records_[head_++ & kMask] = {piece.va, piece.length, offset, bytes_head_, origins[i]};
        }
    }
    for (uint32_t n = head; n != head_; ++n) write_record(n);
    stage_.published.store(head_, std::memory_order_release);
    counters_.add(Counter::payload_deferred_bytes, total);
    if (stats_) stats_->deferred_bytes.fetch_add(total, std::memory_order_relaxed);
    return true;
}

void DeferredStage::retire() {
    for (; tail_ != head_; ++tail_) {
        const uint32_t word = state(tail_).load(std::memory_order_acquire);
        const Record& r = records_[tail_ & kMask];
        // Anything else is not done. An application that lies here gets its own bytes mixed up.
        if (word == abi::deferred_word(tail_, DeferredState::FaultTold))
            note_fault(r.origin);
        else if (word != abi::deferred_word(tail_, DeferredState::Done))
            break;
        bytes_tail_ = r.end;
    }
}

bool DeferredStage::take(uint32_t number, DeferredState to) {
    uint32_t expected = abi::deferred_word(number, DeferredState::Pending);
    return state(number).compare_exchange_strong(expected, abi::deferred_word(number, to), std::memory_order_acq_rel);
}

void DeferredStage::give_back(std::span<const uint32_t> numbers) {
    for (const uint32_t n : numbers) state(n).store(abi::deferred_word(n, DeferredState::Pending), std::memory_order_release);
}

bool DeferredStage::wait_for_provider() {
    for (uint32_t looks = 0; looks < kLooks; ++looks) {
        bool busy = false;
        for (uint32_t n = tail_; n != head_ && !busy; ++n)
            busy = state(n).load(std::memory_order_acquire) == abi::deferred_word(n, DeferredState::Provider);
        if (!busy) return true;
        __builtin_ia32_pause();
    }
    return false;
}

DeferredStage::Settled DeferredStage::settle(int pid) {
    retire();
    if (empty()) return Settled::Done;
    // The provider takes the oldest, one at a time: what it has is waited for, the rest is ours.
    std::array<uint32_t, abi::kDeferredRecords> taken;
    uint32_t count = 0;
    for (uint32_t n = tail_; n != head_; ++n)
        if (take(n, DeferredState::Daemon)) taken[count++] = n;
    const std::span<const uint32_t> numbers{taken.data(), count};
    if (!wait_for_provider()) {
        give_back(numbers);
        return Settled::Busy;
    }
    const Settled settled = place(pid, numbers);
    retire();
    return settled;
}

DeferredStage::Settled DeferredStage::place(int pid, std::span<const uint32_t> numbers) {
    constexpr size_t kPerCall = 64;
    std::array<Piece, kPerCall> pieces;
    while (!numbers.empty()) {
        const size_t n = std::min(numbers.size(), kPerCall);
        for (size_t i = 0; i < n; ++i) {
            const Record& r = records_[numbers[i] & kMask];
            pieces[i] = {stage_.bytes + r.offset, r.va, r.length};
        }
        const VmOutcome outcome = process_vm_copy(pid, Direction::ToSpace, {pieces.data(), n});
        counters_.add(Counter::payload_process_vm_calls, outcome.calls);
        counters_.add(Counter::payload_process_vm_bytes, outcome.bytes);
        counters_.add(Counter::payload_deferred_settled_bytes, outcome.bytes);
        if (stats_) stats_->process_vm_bytes.fetch_add(outcome.bytes, std::memory_order_relaxed);
        if (outcome.error == EPERM) {
            give_back(numbers);
            return Settled::Refused;
        }
        size_t done = outcome.error == 0 ? n : std::min<size_t>(outcome.complete, n - 1);
        for (size_t i = 0; i < done; ++i)
            state(numbers[i]).store(abi::deferred_word(numbers[i], DeferredState::Done), std::memory_order_release);
        if (outcome.error != 0) {
            counters_.add(Counter::payload_faults);
            if (stats_) stats_->faults.fetch_add(1, std::memory_order_relaxed);
            note_fault(records_[numbers[done] & kMask].origin);
            state(numbers[done]).store(abi::deferred_word(numbers[done], DeferredState::Fault), std::memory_order_release);
            ++done;
        }
        numbers = numbers.subspan(done);
    }
    return Settled::Done;
}

void DeferredStage::note_fault(const Origin& origin) {
    if (fault_count_ < kFaults) faults_[fault_count_++] = origin;
}

bool DeferredStage::take_fault(Origin& origin) {
    if (fault_count_ == 0) return false;
    origin = faults_[--fault_count_];
    return true;
}

}  // namespace rocemu::payload
