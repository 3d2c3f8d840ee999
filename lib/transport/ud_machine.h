// SPDX-License-Identifier: BSD-3-Clause
// UdMachine: what a datagram QP does with packets. No connection and no state beyond the next PSN; each WQE names its
// destination. See machine.h. Read IBTA volume 1, 9.8.3.
#pragma once

#include <optional>

#include "transport/ud_responder.h"
#include "transport/unacked_requester.h"

namespace rocemu::transport {

class UdMachine {
  public:
    static constexpr bool kConnected = false;

    UdMachine(QpContext& ctx, SendQueue& sends, ReceiveQueue& receives)
        : requester_(ctx, sends), responder_(ctx, receives) {
        // IBTA 11.2.5.2: a datagram QP has no path MTU of its own: the port's is the limit.
        ctx.mtu = 128u << ctx.config.max_path_mtu;
    }

    void start_receiving() {}
    void start_sending() { requester_.start(); }
    void resume_sending() { requester_.resume(); }
    void stop() {}
    void reset() {}

    bool handle(const wire::PacketView& packet, Instant, bool) {
        responder_.handle(packet);
        return false;
    }
    static std::optional<KeptPacket> poll_kept() { return std::nullopt; }  // a gap is no reason to wait
    static bool kept_ready() { return false; }
    [[nodiscard]] bool must_wait(const wire::OpcodeInfo&) const { return responder_.must_wait(); }
    void executed(const DmaOp& op, DmaStatus status, uint64_t) { responder_.executed(op, status); }
    void gather_failed(uint64_t tag) { requester_.gather_failed(psn_of_tag(tag)); }
    void transmitted() { requester_.transmitted(); }
    void handle_timeout(Instant) {}
    bool poll_transmit(Instant, TxBudget& budget, TxBatch& batch) { return requester_.poll_transmit(budget, batch); }
    [[nodiscard]] Instant next_deadline() const { return kNever; }

  private:
    UnackedRequester requester_;
    UdResponder responder_;
};

}  // namespace rocemu::transport
