// SPDX-License-Identifier: BSD-3-Clause
// UnackedMachine: what a QP does with packets that nobody acknowledges: UC, UD and raw packets. They send alike and
// differ in their responder, which says what transport it is of and whether it has one peer. See machine.h.
// Read IBTA volume 1, 9.8.2 (UC), 9.8.3 (UD); no state beyond the next PSN.
#pragma once

#include <optional>

#include "transport/raw_responder.h"
#include "transport/uc_responder.h"
#include "transport/ud_responder.h"
#include "transport/unacked_requester.h"

namespace rocemu::transport {

template <typename Responder>
class UnackedMachine {
  public:
    static constexpr bool kConnected = Responder::kConnected;

    UnackedMachine(QpContext& ctx, SendQueue& sends, ReceiveQueue& receives)
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
    [[nodiscard]] bool must_wait(const wire::PacketView& packet) const { return responder_.must_wait(packet); }
    void executed(const DmaOp& op, DmaStatus status, uint64_t) { responder_.executed(op, status); }
    void gather_failed(uint64_t tag) { requester_.gather_failed(psn_of_tag(tag)); }
    void transmitted() { requester_.transmitted(); }
    void handle_timeout(Instant) {}
    bool poll_transmit(Instant, TxBudget& budget, TxBatch& batch) {
        return budget.requests && requester_.poll_transmit(budget, batch);
    }
    [[nodiscard]] Instant next_deadline() const { return kNever; }

  private:
    UnackedRequester requester_;
    Responder responder_;
};

using UcMachine = UnackedMachine<UcResponder>;
using UdMachine = UnackedMachine<UdResponder>;
using RawMachine = UnackedMachine<RawResponder>;

}  // namespace rocemu::transport
