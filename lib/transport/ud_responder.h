// SPDX-License-Identifier: BSD-3-Clause
// UdResponder: the receive side of a datagram QP. Every packet is a message of its own: it is taken whole into the next
// receive, behind 40 bytes that hold the IP header or GRH it came with, or it is dropped and counted. Nothing is ever
// answered. Read IBTA volume 1, 9.8.3 (UD), 11.4.1.2 (the GRH area), annex A17.4.5 (IP headers in it).
#pragma once

#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

// What stands in front of the payload of every UD receive.
inline constexpr uint32_t kGrhArea = 40;

class UdResponder {
  public:
    UdResponder(QpContext& ctx, ReceiveQueue& queue) : ctx_(ctx), rq_(queue) {}

    void handle(const wire::PacketView& packet);
    void executed(const DmaOp& op, DmaStatus status);
    // Handled now, a packet would be dropped for want of a receive or of room.
    [[nodiscard]] bool must_wait() const;

  private:
    [[nodiscard]] bool acceptable(const wire::PacketView& packet) const;
    // `bytes` of the message from `offset` on. False: the receive's memory does not hold them.
    bool place(uint64_t receive, uint32_t offset, std::span<const std::byte> bytes);
    void fail(uint64_t receive, WcStatus status);

    QpContext& ctx_;
    ReceiveQueue& rq_;
};

}  // namespace rocemu::transport
