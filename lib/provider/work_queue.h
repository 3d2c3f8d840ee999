// SPDX-License-Identifier: BSD-3-Clause
// WorkQueue: this side of a send queue, receive queue or shared receive queue in shared memory. Read lib/abi/queues.h.
#pragma once

#include <atomic>
#include <cstring>

#include "abi/messages.h"
#include "abi/queues.h"
#include "provider/spinlock.h"
#include "provider/verbs.h"

namespace rocemu::provider {

class Session;

struct WorkQueue {
    Spinlock lock;
    abi::QueueHeader* header;
    std::byte* slots;
    uint32_t mask;
    uint32_t stride;
    uint32_t depth;              // WRs that may be outstanding: exactly what was granted, not the slots
    uint32_t max_sge;
    std::atomic<uint32_t> head;  // next index to be written; written under `lock`
    std::atomic<uint32_t> tail;  // oldest index that is not completed; written under the CQ's lock

    [[nodiscard]] std::byte* slot(uint32_t index) const { return slots + size_t{index & mask} * stride; }
    [[nodiscard]] uint32_t outstanding() const {
        return head.load(std::memory_order_acquire) - tail.load(std::memory_order_acquire);
    }
    // Completion of WQE `index`: it and all before it are free. Ignores what cannot be.
    void complete(uint32_t index) {
        const uint32_t t = tail.load(std::memory_order_relaxed);
        if (index - t < head.load(std::memory_order_relaxed) - t) tail.store(index + 1, std::memory_order_release);
    }
};

// Takes what the daemon told of a queue; false if that cannot be.
bool set_up(Session& session, const abi::QueueRef& ref, uint32_t depth, uint32_t max_sge, uint32_t least_stride,
            WorkQueue& queue);

// Writes receive WRs into slots from the queue's head on, as long as `oldest()`, the first slot that is in use, lets it.
// The queue's lock is held; the head is the caller's to publish. 0 or errno, with *bad_wr.
template <typename Oldest>
int write_receives(WorkQueue& queue, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, Oldest oldest, uint32_t& head) {
    int rc = 0;
    for (; wr != nullptr; wr = wr->next) {
        if (head - oldest() >= queue.depth)
            rc = ENOMEM;
        else if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > queue.max_sge)
            rc = EINVAL;
        if (rc != 0) break;
        auto& wqe = *reinterpret_cast<abi::RqWqe*>(queue.slot(head));
        wqe = {wr->wr_id, static_cast<uint32_t>(wr->num_sge), 0};
        if (wr->num_sge > 0) std::memcpy(&wqe + 1, wr->sg_list, static_cast<size_t>(wr->num_sge) * sizeof(ibv_sge));
        ++head;
    }
    if (rc != 0) *bad_wr = wr;
    return rc;
}

}  // namespace rocemu::provider
