// SPDX-License-Identifier: BSD-3-Clause
// DatagramResponder: what UD and raw packets have in common on the receive side: a packet is a message of its own, taken
// whole into the next receive, or dropped and counted. Nothing is ever answered. Read IBTA volume 1, 9.8.3.1.
#pragma once

#include <span>

#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

class DatagramResponder {
  public:
    static constexpr bool kConnected = false;

    DatagramResponder(QpContext& ctx, ReceiveQueue& queue) : ctx_(ctx), rq_(queue) {}

    void start() {}
    void executed(const DmaOp& op, DmaStatus status);
    // Handled now, it would be dropped for want of a receive or of room.
    [[nodiscard]] bool must_wait(const wire::PacketView&) const { return is_short(); }

  protected:
    // Of receives, or of room for placements.
    [[nodiscard]] bool is_short() const;
    using Piece = std::span<const std::byte>;
    static constexpr uint32_t kMaxPieces = 3;

    // Fills the next receive with the pieces, one behind the other, for this packet. nullptr: dropped and counted, or
    // the receive's own fault.
    ReceiveEntry* take(const wire::PacketView& packet, std::span<const Piece> pieces);
    void drop(Counter counter) const { ctx_.count(counter); }

    QpContext& ctx_;
    ReceiveQueue& rq_;

  private:
    // A receive that holds `length` bytes.
    [[nodiscard]] bool receivable(uint32_t length) const;
    // `bytes` of the message from `offset` on. False: the receive's memory does not hold them.
    bool place(uint64_t receive, uint32_t offset, Piece bytes);
    void fail(uint64_t receive, WcStatus status);
};

}  // namespace rocemu::transport
