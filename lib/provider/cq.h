// SPDX-License-Identifier: BSD-3-Clause
// Cq: a completion queue. One ring per shard in shared memory, each written by its shard alone and read here in turn.
// Locks: the spinlock guards the rings' consumer side and the tails of the work queues that complete here.
// Read lib/abi/queues.h.
#pragma once

#include "abi/queues.h"
#include "provider/objects.h"
#include "provider/spinlock.h"

namespace rocemu::provider {

// This side of one shard's ring.
struct CqRing {
    abi::QueueHeader* header = nullptr;
    abi::Cqe* slots = nullptr;
    uint32_t mask = 0;
    uint32_t shift = 0;  // log2(entries)
    uint32_t consumer = 0;

    // The CQE at the consumer index, or nullptr if it has not been written yet.
    [[nodiscard]] abi::Cqe* front() const { return at(consumer); }
    [[nodiscard]] abi::Cqe* at(uint32_t index) const {
        abi::Cqe* cqe = &slots[index & mask];
        const auto phase = static_cast<uint8_t>(((index >> shift) + 1) & 1);
        return cqe->phase.load(std::memory_order_acquire) == phase ? cqe : nullptr;
    }
};

struct Cq {
    ibv_cq_ex ex;  // begins like ibv_cq
    std::byte foreign_pad[kForeignPad];
    Session* session;
    uint64_t cookie;  // in its events
    Spinlock lock;
    // Guards what the program writes into the rings' headers for the daemon to see (arming, moderation) against their change
    // by ibv_resize_cq. Not `lock`: it is held between ibv_start_poll and ibv_end_poll, where a program may arm. Taken
    // after it. ibv_resize_cq holds it while it waits for the daemon.
    Mutex arming;
    CqRing rings[abi::kMaxShards];
    uint32_t ring_count;
    uint32_t next_ring;       // where the next poll begins, so that no shard is served last for ever
    uint32_t comp_delivered;  // events handed out; under objects_lock
    uint32_t async_delivered;
    // QPs that send here and have payload to be captured (capture.h).
    Spinlock pending_lock;
    Qp* pending_head;
    Qp* pending_tail;
    std::atomic<bool> pending;
    std::atomic<bool> armed;  // asked for an event since the last one; looked at after the daemon's death only
    // Between start_poll and end_poll of the extended interface, under the lock.
    ibv_wc current;
    uint64_t current_timestamp;

    [[nodiscard]] ibv_cq* base() { return reinterpret_cast<ibv_cq*>(&ex); }
    static Cq* of(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
    static Cq* of(ibv_cq_ex* cq) { return reinterpret_cast<Cq*>(cq); }
    static const Cq* of(const ibv_cq* cq) { return reinterpret_cast<const Cq*>(cq); }

    // Takes up to `capacity` completions; the lock is held. `timestamps` may be null.
    int take(int capacity, ibv_wc* wc, uint64_t* timestamps = nullptr);
    // Takes the CQEs of a QP that was destroyed or reset out of the rings, whose slots are free again; the lock is held.
    void strike_out(uint32_t qpn);
    // Is there something to poll without looking closer? The lock is held, or the daemon is dead.
    [[nodiscard]] bool looks_ready() const;
    // objects_lock is held.
    [[nodiscard]] bool has_work_after_death() const;
};

Cq* make_cq(Context& context, uint32_t cqe, void* cq_context, ibv_comp_channel* channel, uint32_t comp_vector);

// Table entries (cq_poll.cpp, cq.cpp, cq_ex.cpp).
int poll_cq(ibv_cq* cq, int capacity, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);

// Two CQs of a QP, which may be the same or none, in an order that cannot deadlock.
class CqPairGuard {
  public:
    CqPairGuard(Cq* a, Cq* b) : first_(a < b ? a : b), second_(a < b ? b : a) {
        if (first_ != nullptr) first_->lock.lock();
        if (second_ != first_) second_->lock.lock();
    }
    ~CqPairGuard() {
        if (second_ != first_) second_->lock.unlock();
        if (first_ != nullptr) first_->lock.unlock();
    }
    CqPairGuard(const CqPairGuard&) = delete;
    CqPairGuard& operator=(const CqPairGuard&) = delete;

  private:
    Cq* first_;
    Cq* second_;
};

}  // namespace rocemu::provider
