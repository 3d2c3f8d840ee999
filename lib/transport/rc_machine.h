// SPDX-License-Identifier: BSD-3-Clause
// RcMachine: what a reliably connected QP does with packets: requester, completer, retry and responder together. One of
// the machines a Qp may hold (see machine.h for what they have in common). XRC QPs are of it too: an initiator uses one
// half, a target the other. Read IBTA volume 1, 9.7, annex A14.
#pragma once

#include <algorithm>
#include <optional>

#include "transport/completer.h"
#include "transport/requester.h"
#include "transport/responder.h"
#include "transport/retry.h"

namespace rocemu::transport {

class RcMachine {
  public:
    static constexpr bool kConnected = true;

    RcMachine(QpContext& ctx, SendQueue& sends, ReceiveQueue& receives)
        : ctx_(ctx),
          sends_(sends),
          retry_(ctx.attr),
          requester_(ctx, sends, retry_),
          completer_(ctx, sends, retry_),
          responder_(ctx, receives) {}

    void start_receiving() { responder_.start(); }
    void start_sending() { requester_.start(); }
    void resume_sending() {}  // SQE does not exist for RC
    void stop() { retry_.stop(); }
    void reset() {
        retry_.stop();
        completer_.reset();
        responder_.reset();
    }

    bool handle(const wire::PacketView& packet, Instant now, bool may_keep) {
        if (packet.op->is_response()) return completer_.handle(packet, now, may_keep);
        ctx_.responses_expected = sends_.responses_expected(ctx_.dma.half());
        return responder_.handle(packet, now, may_keep);
    }
    std::optional<KeptPacket> poll_kept() {
        if (responder_.kept_ready()) return KeptPacket{psn_of(responder_.take_kept()), false};
        if (completer_.kept_ready()) return KeptPacket{psn_of(completer_.take_kept()), true};
        return std::nullopt;
    }
    [[nodiscard]] bool kept_ready() const { return responder_.kept_ready() || completer_.kept_ready(); }
    [[nodiscard]] bool must_wait(const wire::PacketView&) const { return false; }  // the peer is told instead
    void executed(const DmaOp& op, DmaStatus status, uint64_t original) {
        if (op.owner == DmaOwner::Completer)
            completer_.placed(op, status);
        else
            responder_.executed(op, status, original);
        if (op.ack_packet != 0 && !ctx_.dma.faulted(DmaOwner::Responder)) responder_.placed(op.ack_packet, op.ack_msn);
    }
    void gather_failed(uint64_t tag) {
        if (tag & kResponseTag) {
            if (ctx_.can_respond()) responder_.gather_failed(psn_of_tag(tag));
            // Requests that stood behind it have not left.
            if (ctx_.can_request() && !responder_.halted()) sends_.rewind();
        } else if (ctx_.can_request()) {
            requester_.gather_failed(psn_of_tag(tag));
        }
    }
    void transmitted() {}  // an acknowledgement tells more
    void handle_timeout(Instant now) {
        completer_.handle_timeout(now);
        responder_.handle_timeout(now);
        requester_.handle_timeout(now);
    }
    bool poll_transmit(Instant now, TxBudget& budget, TxBatch& batch) {
        // Responses first: if a gather of ours fails, everything behind it is lost to the peer. But a peer that always waits
        // for more of them than a turn holds must not keep our requests from leaving: a turn of responses alone is followed
        // by one of requests alone, if there are any.
        if (requests_turn_ && budget.requests && !responder_.halted()) {
            requests_turn_ = false;
            const uint32_t before = batch.count;
            (void)requester_.poll_transmit(now, budget, batch);
            if (batch.count != before) return true;
        }
        if (responder_.poll_transmit(budget, batch)) {
            requests_turn_ = true;
            return true;
        }
        return budget.requests && requester_.poll_transmit(now, budget, batch);
    }
    [[nodiscard]] Instant next_deadline() const {
        return std::min({requester_.next_deadline(), completer_.next_deadline(), responder_.next_deadline()});
    }

  private:
    QpContext& ctx_;
    SendQueue& sends_;
    Retry retry_;
    Requester requester_;
    Completer completer_;
    Responder responder_;
    bool requests_turn_ = false;  // the last turn was filled by responses
};

}  // namespace rocemu::transport
