// SPDX-License-Identifier: BSD-3-Clause
// See dma_queue.h.
#include "transport/dma_queue.h"

namespace rocemu::transport {

bool DmaQueue::poll(Qp* qp, DmaBatch& batch) {
    while (handed_out_ != ops_.tail()) {
        const DmaOp& op = ops_.at(handed_out_);
        if (batch.count == kDmaBatchRequests || batch.segments.room() < op.segments) return true;
        DmaRequest& out = batch.requests[batch.count++];
        out = DmaRequest{qp, handed_out_, op.kind, nullptr, op.length, batch.segments.used, op.segments,
                         op.wqe_index, op.takes_receive, op.deferrable, op.ends_write, 0, 0};
        if (!is_atomic(op.kind)) {
            out.source = static_cast<const std::byte*>(op.source);
        } else {
            const auto& operands = *static_cast<const AtomicOperands*>(op.source);
            out.compare_add = operands.compare_add;
            out.swap = operands.swap;
        }
        for (uint32_t i = 0; i < op.segments; ++i, segments_.pop())
            batch.segments.items[batch.segments.used++] = segments_.front();
        ++handed_out_;
    }
    return false;
}

void DmaQueue::abandon() {
    ops_.truncate(handed_out_);
    segments_.clear();
    for (uint64_t tag = ops_.head(); tag != ops_.tail(); ++tag) ops_.at(tag).owner = DmaOwner::None;
    fault_mark_.fill(kNoFault);
}

}  // namespace rocemu::transport
