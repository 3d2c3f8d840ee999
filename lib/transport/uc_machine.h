// SPDX-License-Identifier: BSD-3-Clause
// UcMachine: what an unreliably connected QP does with packets. See machine.h. Read IBTA volume 1, 9.8.2.
#pragma once

#include <optional>

#include "transport/uc_responder.h"
#include "transport/unacked_requester.h"

namespace rocemu::transport {

class UcMachine {
  public:
    static constexpr bool kConnected = true;

    UcMachine(QpContext& ctx, SendQueue& sends, ReceiveQueue& receives)
        : requester_(ctx, sends), responder_(ctx, receives) {}

    void start_receiving() { responder_.start(); }
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
    [[nodiscard]] bool must_wait(const wire::OpcodeInfo& op) const { return responder_.must_wait(op); }
    void executed(const DmaOp& op, DmaStatus status, uint64_t) { responder_.executed(op, status); }
    void gather_failed(uint64_t tag) { requester_.gather_failed(psn_of_tag(tag)); }
    void transmitted() { requester_.transmitted(); }
    void handle_timeout(Instant) {}
    bool poll_transmit(Instant, TxBudget& budget, TxBatch& batch) { return requester_.poll_transmit(budget, batch); }
    [[nodiscard]] Instant next_deadline() const { return kNever; }

  private:
    UnackedRequester requester_;
    UcResponder responder_;
};

}  // namespace rocemu::transport
