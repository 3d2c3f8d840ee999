// SPDX-License-Identifier: BSD-3-Clause
// UnackedRequester: the send side of the transports that nobody acknowledges, UC and UD. Packets leave in order, a WQE
// has completed when its last packet has left, nothing is ever sent again. An error stops the send queue (SQE) and
// leaves the receive side alone. Read IBTA volume 1, 9.8.1 (UC and UD requester), 10.3.1.6 (SQE), 10.8.3.
#pragma once

#include "transport/qp_context.h"
#include "transport/send_queue.h"

namespace rocemu::transport {

class UnackedRequester {
  public:
    UnackedRequester(QpContext& ctx, SendQueue& queue) : ctx_(ctx), q_(queue) {}

    void start() { q_.start(extend_start(ctx_.attr.sq_psn)); }
    // SQE to RTS: what was flushed is gone, PSNs go on where they were.
    void resume() { q_.failed = false; }
    bool poll_transmit(TxBudget& budget, TxBatch& batch);
    // Everything that was polled has left.
    void transmitted();
    // Packets before `psn` (extended) have left, the payload of `psn` could not be read.
    void gather_failed(uint64_t psn);

  private:
    bool start_wqe(SendEntry& e);
    [[nodiscard]] WcStatus check_wqe(const SendEntry& e) const;
    // A WQE found wrong fails when everything before it has left.
    void settle_error();

    QpContext& ctx_;
    SendQueue& q_;
};

}  // namespace rocemu::transport
