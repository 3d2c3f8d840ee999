// SPDX-License-Identifier: BSD-3-Clause
// See receive_stage.h.
#include "provider/receive_stage.h"

#include <algorithm>

#include <sched.h>

#include "guard/fault_guard.h"
#include "provider/session.h"

namespace rocemu::provider {

using abi::deferred_word;
using abi::DeferredState;

namespace {
constexpr uint32_t kYieldsPerCheck = 1024;
constexpr uint32_t kCodeMask = (1u << abi::kDeferredStateBits) - 1;
}  // namespace

void ReceiveStage::set_up(Session& session, abi::ReceiveStage* stages, uint32_t shards) {
    session_ = &session;
    for (uint32_t i = 0; i < shards; ++i) sides_[i].shared = stages + i;
    count_ = shards;
}

void ReceiveStage::drain_all() {
    Guard guard(lock_);
    for (uint32_t i = 0; i < count_; ++i) drain_locked(i);
}

void ReceiveStage::drain_if_free() {
    if (!behind() || !lock_.try_lock()) return;
    for (uint32_t i = 0; i < count_; ++i) drain_locked(i);
    lock_.unlock();
}

void ReceiveStage::drain_locked(uint32_t shard) {
    Side& side = sides_[shard];
    const uint32_t to = side.shared->published.load(std::memory_order_acquire);
    uint32_t number = side.consumer.load(std::memory_order_relaxed);
    // What is further behind than the ring is long has been done by the daemon.
    if (to - number > abi::kDeferredRecords) number = to - abi::kDeferredRecords;
    for (; number != to; ++number) execute(shard, number);
    // Release: partner is behind() of other threads.
    side.consumer.store(number, std::memory_order_release);
}

void ReceiveStage::execute(uint32_t shard, uint32_t number) {
    abi::ReceiveStage& stage = *sides_[shard].shared;
    abi::DeferredRecord& record = stage.records[number % abi::kDeferredRecords];
    for (uint32_t tries = 0;; ++tries) {
        uint32_t word = record.state.load(std::memory_order_acquire);
        // Done long ago, and the place used again.
        if ((word & ~kCodeMask) != (deferred_word(number, DeferredState::Pending) & ~kCodeMask)) return;
        switch (static_cast<DeferredState>(word & kCodeMask)) {
            case DeferredState::Pending: break;
            case DeferredState::Daemon:
                // A daemon that died in the middle has perhaps not done it.
                if (session_->alive()) {
                    wait_for_daemon(tries);
                    continue;
                }
                break;
            case DeferredState::Fault:
                note_failure(record);
                record.state.store(deferred_word(number, DeferredState::FaultTold), std::memory_order_release);
                return;
            default: return;
        }
        if (!record.state.compare_exchange_strong(word, deferred_word(number, DeferredState::Provider), std::memory_order_acq_rel))
            continue;
        const uint32_t length = record.length, offset = record.offset;
        const bool inside = length <= abi::kReceiveStageBytes && offset <= abi::kReceiveStageBytes - length;
        const bool ok = inside && guard::copy(reinterpret_cast<void*>(record.va), stage.bytes + offset, length);
        if (!ok) note_failure(record);
        const uint32_t slot = record.qp_slot;
        record.state.store(deferred_word(number, ok ? DeferredState::Done : DeferredState::FaultTold), std::memory_order_release);
        // The daemon ends the QP when it looks at the record.
        if (!ok && slot < abi::kMaxQpsPerSession && session_->alive()) session_->ring(shard, slot);
        return;
    }
}

void ReceiveStage::wait_for_daemon(uint32_t tries) {
    sched_yield();
    if (tries % kYieldsPerCheck == kYieldsPerCheck - 1) session_->check_daemon();
}

void ReceiveStage::note_failure(const abi::DeferredRecord& record) {
    const uint32_t n = failures_.load(std::memory_order_relaxed);
    failure_[n % kFailures] = {record.qpn, record.wqe_index, record.is_recv != 0};
    failures_.store(n + 1, std::memory_order_relaxed);
}

void ReceiveStage::erase_failures(uint32_t qpn) {
    Guard guard(lock_);
    for (Failure& f : failure_)
        if (f.qpn == qpn) f = {};
}

bool ReceiveStage::find_failure(uint32_t qpn, bool is_recv, uint32_t wqe_index) {
    Guard guard(lock_);
    const uint32_t n = std::min(failures_.load(std::memory_order_relaxed), kFailures);
    return std::any_of(failure_, failure_ + n, [&](const Failure& f) {
        return f.qpn == qpn && f.is_recv == is_recv && f.wqe_index == wqe_index;
    });
}

}  // namespace rocemu::provider
