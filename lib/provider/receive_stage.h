// SPDX-License-Identifier: BSD-3-Clause
// ReceiveStage: this side of abi/receive_stage.h: places what the daemon has received into this process, before anything
// could tell the program that it has come. Any thread; a forked child never gets here (its session is forgotten).
//
// The rules, and who keeps them: every work completion of any CQ is returned behind drain() (Cq::take); whatever ends the
// right to write there (destroy_qp, RESET, dereg_mr, rereg_mr, destroy_cq) drains behind the daemon's answer and before it
// returns; what waited for a fence is captured behind it (capture.cpp); the agent drains before each of its jobs. Copies
// are guarded: where memory is not there, the work request completes with LOC_PROT_ERR.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/messages.h"
#include "abi/receive_stage.h"
#include "provider/spinlock.h"

namespace rocemu::provider {

class Session;

class ReceiveStage {
  public:
    void set_up(Session& session, abi::ReceiveStage* stages, uint32_t shards);
    // Returns when everything that was published before is in its place. Nearly free when it is already.
    void drain() {
        if (behind()) drain_all();
    }
    // The same, where nobody waits for it; not if another thread is at it.
    void drain_if_free();
    // Was memory of this work request not there? After drain().
    [[nodiscard]] bool failed(uint32_t qpn, bool is_recv, uint32_t wqe_index) {
        return failures_.load(std::memory_order_relaxed) != 0 && find_failure(qpn, is_recv, wqe_index);
    }
    // The QP starts again: so do its indices. After drain().
    void forget_failures(uint32_t qpn) {
        if (failures_.load(std::memory_order_relaxed) != 0) erase_failures(qpn);
    }

  private:
    // One shard's.
    struct Side {
        abi::ReceiveStage* shared = nullptr;
        std::atomic<uint32_t> consumer{0};  // records below are in their places; release, under the lock
    };
    struct Failure {
        uint32_t qpn, wqe_index;
        bool is_recv;
    };
    static constexpr uint32_t kFailures = 64;  // the oldest are forgotten: their QPs are in ERR

    [[nodiscard]] bool behind() const {
        for (uint32_t i = 0; i < count_; ++i)
            if (sides_[i].shared->published.load(std::memory_order_acquire) != sides_[i].consumer.load(std::memory_order_acquire))
                return true;
        return false;
    }
    void drain_all();
    void drain_locked(uint32_t shard);
    // Copies record `number` or waits for the daemon that does.
    void execute(uint32_t shard, uint32_t number);
    void wait_for_daemon(uint32_t tries);
    bool find_failure(uint32_t qpn, bool is_recv, uint32_t wqe_index);
    void erase_failures(uint32_t qpn);
    void note_failure(const abi::DeferredRecord& record);

    Session* session_ = nullptr;
    uint32_t count_ = 0;
    Side sides_[abi::kMaxShards];
    Spinlock lock_;
    std::atomic<uint32_t> failures_{0};  // noted so far
    Failure failure_[kFailures] = {};    // under the lock
};

}  // namespace rocemu::provider
