// SPDX-License-Identifier: BSD-3-Clause
// UcResponder: the receive side of an unreliably connected QP. A message of which a packet is missing, or that cannot be
// taken, is dropped from there to its end, silently but counted; the next FIRST or ONLY begins anew. The receive of a
// dropped SEND is used for the next one. Read IBTA volume 1, 9.8.2 (UC), 9.9.3 (what is an error of the QP).
#pragma once

#include <array>

#include "transport/inbound_message.h"
#include "transport/qp_context.h"
#include "transport/receive_queue.h"

namespace rocemu::transport {

class UcResponder {
  public:
    static constexpr bool kConnected = true;

    UcResponder(QpContext& ctx, ReceiveQueue& queue) : ctx_(ctx), rq_(queue) {}

    void start() {
        message_ = {};
        dropping_ = false;
        expected_ = extend_start(ctx_.attr.rq_psn);
    }
    void handle(const wire::PacketView& packet);
    void executed(const DmaOp& op, DmaStatus status);
    // Handled now, a packet of this kind would be dropped for want of a receive or of room.
    [[nodiscard]] bool must_wait(const wire::PacketView& packet) const;

  private:
    // The chain: false ends it.
    bool check_sequence(const wire::PacketView& packet);
    bool take_receive(const wire::PacketView& packet);
    bool check_length(const wire::PacketView& packet);
    // Of the packet that is being handled: the first segment_count_; not cleared on purpose.
    using Segments = std::array<memory::Segment, kMaxSge>;
    bool check_key(const wire::PacketView& packet, Segments& segments);
    void execute(const wire::PacketView& packet, const Segments& segments);

    void abandon();                // the message that is coming in, if any
    bool drop();                   // that message and what still comes of it; false
    bool fail(WcStatus status);    // its receive's own fault; false
    [[nodiscard]] bool sends(const wire::PacketView& p) const { return p.op->operation == wire::Operation::Send; }

    QpContext& ctx_;
    ReceiveQueue& rq_;
    InboundMessage message_;
    bool dropping_ = false;
    uint64_t expected_ = 0;  // extended PSN
    // Of the packet that is being handled.
    bool taken_ = false;
    uint64_t receive_ = 0;
    uint32_t segment_count_ = 0;
};

}  // namespace rocemu::transport
