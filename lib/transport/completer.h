// SPDX-License-Identifier: BSD-3-Clause
// Completer: takes ACKs, NAKs, READ responses and atomic results and moves the acknowledged border of the send queue.
// Read IBTA volume 1, 9.7.5 (acknowledgements, implied ACK and NAK), 9.7.6 (responses at the requester),
// 9.9.2 (requester errors).
#pragma once

#include "transport/qp_context.h"
#include "transport/retry.h"
#include "transport/send_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

class Completer {
  public:
    Completer(QpContext& ctx, SendQueue& queue, Retry& retry) : ctx_(ctx), q_(queue), retry_(retry) {}

    // A response packet. Precondition: the QP's state listens to responses.
    void handle(const wire::PacketView& packet, Instant now);
    // A placement of response data has ended.
    void placed(const DmaOp& op, DmaStatus status);

  private:
    [[nodiscard]] bool reach(uint64_t psn, uint64_t target, bool data, Instant now);
    void progress(Instant now);
    void on_acknowledge(uint64_t psn, wire::Aeth aeth, Instant now);
    void on_nak(wire::NakCode code, Instant now);
    void on_read_response(uint64_t psn, const wire::PacketView& packet, Instant now);
    void on_atomic_result(const wire::PacketView& packet, Instant now);
    bool place(SendEntry& e, uint64_t offset, const void* source, uint32_t length);
    void implied_nak(uint64_t psn, bool data, Instant now);
    void act(RetryVerdict verdict, Counter exhausted, WcStatus status);
    void fail(WcStatus status);

    QpContext& ctx_;
    SendQueue& q_;
    Retry& retry_;
};

}  // namespace rocemu::transport
