// SPDX-License-Identifier: BSD-3-Clause
// Requester: turns send WQEs into request packets: order, limits, segmentation, going back. What comes back is the
// completer's business, when to go back is retry's. Read IBTA volume 1, 9.7.2 (segmentation), 9.7.3 (PSN),
// 9.7.7 (window and READ limits), 10.8.3.3 (ordering and fences), 11.4.1.1.
#pragma once

#include "transport/message_packet.h"
#include "transport/qp_context.h"
#include "transport/retry.h"
#include "transport/send_queue.h"

namespace rocemu::transport {

class Requester {
  public:
    Requester(QpContext& ctx, SendQueue& queue, Retry& retry) : ctx_(ctx), q_(queue), retry_(retry) {}

    void start();  // entering RTS from RTR: PSNs begin at attr.sq_psn
    // True if more could be sent now.
    bool poll_transmit(Instant now, TxBudget& budget, TxBatch& batch);
    // The payload of packet `psn` (extended) could not be read; it and the later packets of its batch were not sent.
    void gather_failed(uint64_t psn);
    void handle_timeout(Instant now);
    // The next moment at which handle_timeout or poll_transmit has something to do.
    [[nodiscard]] Instant next_deadline() const;
    // A WQE found wrong before it was sent fails when everything before it has completed.
    void settle_local_error();

  private:
    [[nodiscard]] bool may_send(SendEntry& e);
    [[nodiscard]] bool start_wqe(SendEntry& e);
    [[nodiscard]] bool may_read() const;
    [[nodiscard]] WcStatus check_wqe(const SendEntry& e) const;
    [[nodiscard]] bool window_open() const { return q_.requests_out() < ctx_.config.window_packets; }
    // Something is outstanding and nothing is going to be sent that could bring news.
    [[nodiscard]] bool may_probe() const;
    bool send_probe(Instant now, TxBatch& batch);
    Built build(Instant now, SendEntry& e, uint32_t payload, TxBatch& batch);
    // More packets of the message, behind one that was just built, as far as they are all alike.
    void build_middles(Instant now, const SendEntry& e, TxBudget& budget, TxBatch& batch);
    Built build_data_request(const SendEntry& e, TxBatch& batch);
    [[nodiscard]] bool wants_ack(const SendEntry& e);
    [[nodiscard]] bool ack_due(bool nothing_may_follow);

    QpContext& ctx_;
    SendQueue& q_;
    Retry& retry_;
    uint32_t since_ack_req_ = 0;
    bool probe_wanted_ = false;
};

}  // namespace rocemu::transport
